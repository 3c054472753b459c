// Makes sequences of programmatic launches (programmatic.h) with the CUDA runtime, and registers its kernels the way
// nvcc's output does. The fat binary contains no device code, so it runs on the simulated runtime only.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include "programmatic.h"
#include "fat_binary.h"
#include <cuda_runtime_api.h>

// An address for each kernel, like that of its host stub.
static const char stubs[KERNELS];

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
    void **handle = begin_fat_binary();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        register_kernel(handle, &stubs[kernel], kernel_names[kernel]);
    __cudaRegisterFatBinaryEnd(handle);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    run_chains("programmatic_runtime");
    return 0;
}
