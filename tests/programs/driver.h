// The first steps of most small driver clients.
#pragma once
#include <cuda.h>

#include "common.h"

// Initialises CUDA and makes device 0's primary context current.
static inline void start_cuda(void)
{
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

// Loads a kernel of that name, which spins for as long as its suffix says.
static inline CUfunction load_kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    char *ptx = ptx_module(&name, 1);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, name));
    free(ptx);
    return function;
}

static inline CUstream new_stream(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline void launch(CUfunction kernel, CUstream stream)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

// Makes a programmatic launch: its kernel may start before the kernel ahead of it has ended.
static inline void launch_behind(CUfunction kernel, CUstream stream)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, kernel, arguments, NULL));
}
