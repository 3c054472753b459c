// A library that uses the runtime it was linked with, as extension modules do. The including file names PLUGIN_RUN.
// Launching a kernel that was registered with another runtime would fail.
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *thread_id, void *block_id, void *block_dim, void *grid_dim, int *warp_size);

static void stub_5us(void) {}

// Allocates, sets, launches `launches` kernels, frees; returns the major version of the runtime that it is bound to.
int PLUGIN_RUN(int launches)
{
    static const uint64_t device_code[2];
    static const struct {
        int magic, version;
        const void *data;
        void *unused;
    } fat_binary = {0x466243b1, 1, device_code, NULL};
    uint64_t nothing = 0;
    void *arguments[] = {&nothing}, *block;
    dim3 one = {1, 1, 1}, threads = {32, 1, 1};
    int version = 0;
    void **handle = __cudaRegisterFatBinary((void *)&fat_binary);
    __cudaRegisterFunction(handle, (const char *)stub_5us, (char *)"plugin_5us", "plugin_5us", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    CHECK(cudaMalloc(&block, 4096));
    CHECK(cudaMemset(block, 0, 4096));
    for (int launched = 0; launched < launches; launched++)
        CHECK(cudaLaunchKernel((const void *)stub_5us, one, threads, arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(block));
    CHECK(cudaRuntimeGetVersion(&version));
    return version / 1000;
}
