// What nvcc puts into a program for its kernels, written by hand: a fat binary and its registration with the CUDA
// runtime. It contains no device code, so a program that uses this runs on the simulated runtime only.
#pragma once
#include <stddef.h>
#include <stdint.h>

// The functions that nvcc's output calls; declared in crt/host_runtime.h for C++ only.
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *thread_id, void *block_id, void *block_dim, void *grid_dim, int *warp_size);

// A registration, filled by register_kernel and similar functions, and ended by __cudaRegisterFatBinaryEnd.
static inline void **begin_fat_binary(void)
{
    static const uint64_t device_code[2];
    static const struct {
        int magic, version;
        const void *data;
        void *unused;
    } fat_binary = {0x466243b1, 1, device_code, NULL};
    return __cudaRegisterFatBinary((void *)&fat_binary);
}

// Registers a kernel of that name, launched by the address of its stub.
static inline void register_kernel(void **handle, const void *stub, const char *name)
{
    __cudaRegisterFunction(handle, (const char *)stub, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}
