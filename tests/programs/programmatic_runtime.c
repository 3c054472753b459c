// Chains of programmatic launches (programmatic.h) by a program that links the CUDA runtime and registers its kernels the
// way nvcc's output does. The fat binary holds no device code, so it runs on the stand-in runtime only.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include "programmatic.h"
#include <cuda_runtime_api.h>

// What nvcc's output calls; declared in crt/host_runtime.h for C++ only.
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *thread_id, void *block_id, void *block_dim, void *grid_dim, int *warp_size);

// An address for each kernel, as its host stub has.
static const char stubs[KERNELS];
static const uint64_t device_code[2];
static const struct {
    int magic, version;
    const void *data;
    void *unused;
} fat_binary = {0x466243b1, 1, device_code, NULL};

static void launch_with(int kernel, CUstream stream, CUlaunchAttribute *attributes, unsigned count)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}, .stream = stream};
    config.attrs = (cudaLaunchAttribute *)attributes; // the same in both APIs
    config.numAttrs = count;
    CHECK(cudaLaunchKernelExC(&config, &stubs[kernel], arguments));
}

int main(void)
{
    void **handle = __cudaRegisterFatBinary((void *)&fat_binary);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        __cudaRegisterFunction(handle, &stubs[kernel], (char *)kernel_names[kernel], kernel_names[kernel], -1, NULL, NULL,
                               NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    run_chains("programmatic_runtime");
    return 0;
}
