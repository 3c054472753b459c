// Makes sequences of programmatic launches (programmatic.h) with the driver API.
// link: -l:libcuda.so.1
#include "programmatic.h"

static CUfunction kernels[KERNELS];

static void launch_with(int kernel, CUstream stream, CUlaunchAttribute *attributes, unsigned count)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    CHECK(cuLaunchKernelEx(&config, kernels[kernel], arguments, NULL));
}

int main(void)
{
    start_cuda();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        kernels[kernel] = load_kernel(kernel_names[kernel]);
    run_chains("programmatic");
    return 0;
}
