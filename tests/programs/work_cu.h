// The work of work.h on the driver API. The including file defines FN(export), which is how a driver function is
// reached: by symbol, or by a pointer. Thread 3 uses the per-thread default stream variants throughout, as code
// compiled with --default-stream per-thread does.
#pragma once
// Declares every variant under its own name, instead of mapping names to the newest one.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "work.h"

static CUdevice cu_device;
static CUcontext cu_context;
static CUfunction cu_kernels[KERNELS];
static _Thread_local bool cu_per_thread;

#define CU(name, export, arguments) COUNTED(#name, FN(export) arguments)
// A function that has a per-thread variant: `suffix` is _ptsz for asynchronous functions and _ptds for the others.
#define CU_ON_STREAM(name, legacy, suffix, arguments)                                                                  \
    COUNTED(#name, cu_per_thread ? FN(legacy##suffix) arguments : FN(legacy) arguments)

static void cu_enter(int thread)
{
    cu_per_thread = thread == 3;
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (cu_context));
}

static void *cu_stream_create(bool blocking)
{
    CUstream stream;
    CU(cuStreamCreate, cuStreamCreate, (&stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    return stream;
}

static void cu_stream_destroy(void *stream)
{
    CU(cuStreamDestroy, cuStreamDestroy_v2, (stream));
}

static void *cu_event_create(void)
{
    CUevent event;
    CU(cuEventCreate, cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void cu_event_destroy(void *event)
{
    CU(cuEventDestroy, cuEventDestroy_v2, (event));
}

static void cu_launch(int kernel, int turn, void *stream, void **arguments)
{
    if (turn % 3 == 0) {
        CUlaunchConfig config = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
        config.hStream = stream;
        CU_ON_STREAM(cuLaunchKernelEx, cuLaunchKernelEx, _ptsz, (&config, cu_kernels[kernel], arguments, NULL));
    } else {
        CU_ON_STREAM(cuLaunchKernel, cuLaunchKernel, _ptsz,
                     (cu_kernels[kernel], 4, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
    }
}

static void cu_copy(enum copy_kind kind, bool async, void *to, const void *from, size_t bytes, void *stream)
{
    CUdeviceptr to_device = (CUdeviceptr)to, from_device = (CUdeviceptr)from;
    if (kind == HTOD && async)
        CU_ON_STREAM(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, _ptsz, (to_device, from, bytes, stream));
    else if (kind == HTOD)
        CU_ON_STREAM(cuMemcpyHtoD, cuMemcpyHtoD_v2, _ptds, (to_device, from, bytes));
    else if (kind == DTOH && async)
        CU_ON_STREAM(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, _ptsz, (to, from_device, bytes, stream));
    else if (kind == DTOH)
        CU_ON_STREAM(cuMemcpyDtoH, cuMemcpyDtoH_v2, _ptds, (to, from_device, bytes));
    else if (async)
        CU_ON_STREAM(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, _ptsz, (to_device, from_device, bytes, stream));
    else
        CU_ON_STREAM(cuMemcpyDtoD, cuMemcpyDtoD_v2, _ptds, (to_device, from_device, bytes));
}

static void cu_set(bool async, void *to, size_t bytes, void *stream)
{
    if (async)
        CU_ON_STREAM(cuMemsetD8Async, cuMemsetD8Async, _ptsz, ((CUdeviceptr)to, 7, bytes, stream));
    else
        CU_ON_STREAM(cuMemsetD8, cuMemsetD8_v2, _ptds, ((CUdeviceptr)to, 7, bytes));
}

static void *cu_allocate(enum memory memory, size_t bytes, void *stream)
{
    CUdeviceptr block = 0;
    void *host = NULL;
    if (memory == DEVICE)
        CU(cuMemAlloc, cuMemAlloc_v2, (&block, bytes));
    else if (memory == MANAGED)
        CU(cuMemAllocManaged, cuMemAllocManaged, (&block, bytes, CU_MEM_ATTACH_GLOBAL));
    else if (memory == POOL)
        CU_ON_STREAM(cuMemAllocAsync, cuMemAllocAsync, _ptsz, (&block, bytes, stream));
    else
        CU(cuMemHostAlloc, cuMemHostAlloc, (&host, bytes, CU_MEMHOSTALLOC_PORTABLE));
    return memory == HOST ? host : (void *)block;
}

static void cu_release(enum memory memory, void *block, void *stream)
{
    if (memory == HOST)
        CU(cuMemFreeHost, cuMemFreeHost, (block));
    else if (memory == POOL)
        CU_ON_STREAM(cuMemFreeAsync, cuMemFreeAsync, _ptsz, ((CUdeviceptr)block, stream));
    else
        CU(cuMemFree, cuMemFree_v2, ((CUdeviceptr)block));
}

static void cu_record(void *event, void *stream)
{
    CU_ON_STREAM(cuEventRecord, cuEventRecord, _ptsz, (event, stream));
}

static void cu_wait(void *stream, void *event)
{
    CU_ON_STREAM(cuStreamWaitEvent, cuStreamWaitEvent, _ptsz, (stream, event, 0));
}

static void cu_synchronize(enum sync what, void *handle)
{
    if (what == SYNC_STREAM)
        CU_ON_STREAM(cuStreamSynchronize, cuStreamSynchronize, _ptsz, (handle));
    else if (what == SYNC_EVENT)
        CU(cuEventSynchronize, cuEventSynchronize, (handle));
    else
        CU(cuCtxSynchronize, cuCtxSynchronize, ());
}

// Does the work in the primary context of device 0 and prints it.
static void work_on_driver(const char *program)
{
    CUmodule module;
    char *ptx = ptx_module(kernel_names, KERNELS);
    CU(cuInit, cuInit, (0));
    CU(cuDeviceGet, cuDeviceGet, (&cu_device, 0));
    CU(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (&cu_context, cu_device));
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (cu_context));
    CU(cuModuleLoadData, cuModuleLoadData, (&module, ptx));
    for (int kernel = 0; kernel < KERNELS; kernel++)
        CU(cuModuleGetFunction, cuModuleGetFunction, (&cu_kernels[kernel], module, kernel_names[kernel]));
    work = (struct work_api){
        .enter = cu_enter,
        .stream_create = cu_stream_create,
        .stream_destroy = cu_stream_destroy,
        .event_create = cu_event_create,
        .event_destroy = cu_event_destroy,
        .launch = cu_launch,
        .copy = cu_copy,
        .set = cu_set,
        .allocate = cu_allocate,
        .release = cu_release,
        .record = cu_record,
        .wait = cu_wait,
        .synchronize = cu_synchronize,
    };
    do_work(program);
    free(ptx);
    CU(cuModuleUnload, cuModuleUnload, (module));
    CU(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, (cu_device));
}
