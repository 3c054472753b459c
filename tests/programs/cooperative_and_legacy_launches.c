// Launches by calls other than cuLaunchKernel and cuLaunchKernelEx: cooperative ones, on one device and on all at once,
// and those of CUDA 3. Prints the launches by kernel.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common.h"

enum { DEVICES = 2, ROUNDS = 50, KERNELS = 2 };

static const char *const names[KERNELS] = {"old_5us", "old_30us"};
static long launched[KERNELS];

int main(void)
{
    CUcontext contexts[DEVICES];
    CUstream streams[DEVICES];
    CUfunction kernels[DEVICES][KERNELS];
    char *ptx = ptx_module(names, KERNELS);
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    int devices = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    REQUIRE(devices >= DEVICES);
    for (int device = DEVICES - 1; device >= 0; device--) {
        CUmodule module;
        CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
        CHECK(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
        CHECK(cuModuleLoadData(&module, ptx));
        for (int kernel = 0; kernel < KERNELS; kernel++)
            CHECK(cuModuleGetFunction(&kernels[device][kernel], module, names[kernel]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        int kernel = round % KERNELS;
        CUfunction function = kernels[0][kernel];
        COUNTED("cuLaunchCooperativeKernel", round % 3 == 0
            ? cuLaunchCooperativeKernel_ptsz(function, 2, 1, 1, 64, 1, 1, 0, streams[0], arguments)
            : cuLaunchCooperativeKernel(function, 2, 1, 1, 64, 1, 1, 0, streams[0], arguments));
        CUDA_LAUNCH_PARAMS all[DEVICES];
        for (int device = 0; device < DEVICES; device++)
            all[device] = (CUDA_LAUNCH_PARAMS){kernels[device][kernel], 2, 1, 1, 64, 1, 1, 0, streams[device], arguments};
        COUNTED("cuLaunchCooperativeKernelMultiDevice", cuLaunchCooperativeKernelMultiDevice(all, DEVICES, 0));
        CHECK(cuFuncSetBlockShape(function, 32, 1, 1));
        COUNTED("cuLaunch", cuLaunch(function));
        COUNTED("cuLaunchGrid", cuLaunchGrid(function, 4, 2));
        COUNTED("cuLaunchGridAsync", cuLaunchGridAsync(function, 4, 2, streams[0]));
        launched[kernel] += 1 + DEVICES + 3;
        if (round % 5 == 0) {
            COUNTED("cuStreamSynchronize", cuStreamSynchronize(streams[0]));
            pause_us(200);
        }
    }
    // Launches more than fit at once, and on several streams of one device.
    REQUIRE(cuLaunchCooperativeKernel(kernels[0][0], 1 << 20, 1, 1, 64, 1, 1, 0, streams[0], arguments) ==
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    CUDA_LAUNCH_PARAMS same[2] = {{kernels[0][0], 2, 1, 1, 64, 1, 1, 0, streams[0], arguments},
                                  {kernels[0][0], 2, 1, 1, 64, 1, 1, 0, streams[0], arguments}};
    REQUIRE(cuLaunchCooperativeKernelMultiDevice(same, 2, 0) == CUDA_ERROR_INVALID_VALUE);
    COUNT("cuLaunchCooperativeKernel", 1);
    COUNT("cuLaunchCooperativeKernelMultiDevice", 1);
    for (int device = 0; device < DEVICES; device++)
        COUNTED("cuStreamSynchronize", cuStreamSynchronize(streams[device]));
    printf("{\"program\":\"cooperative_and_legacy_launches\",\"launches\":%ld,\"kernels\":{\"%s\":%ld,\"%s\":%ld},", launched[0] + launched[1],
           names[0], launched[0], names[1], launched[1]);
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
