// The CUDA runtime beside the driver API in one random program: the same work by the calls that compiled code makes.
#pragma once
#include "random_world.h"
#include "fat_binary.h"

#include <cuda_runtime_api.h>

// The per-thread variants, to which the header only maps other names.
extern __typeof__(cudaLaunchKernel) cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchKernelExC) cudaLaunchKernelExC_ptsz;
extern __typeof__(cudaMemcpyAsync) cudaMemcpyAsync_ptsz;
extern __typeof__(cudaMemsetAsync) cudaMemsetAsync_ptsz;
extern __typeof__(cudaEventRecord) cudaEventRecord_ptsz;
extern __typeof__(cudaStreamWaitEvent) cudaStreamWaitEvent_ptsz;
extern __typeof__(cudaStreamSynchronize) cudaStreamSynchronize_ptsz;

static bool has_runtime;
// An address for each kernel, like that of its host stub.
static const char stubs[RUNTIME_KERNELS];

static void register_kernels(void)
{
    void **handle = begin_fat_binary();
    for (int kernel = 0; kernel < RUNTIME_KERNELS; kernel++) {
        const char *name = kernel_names[FIRST_RUNTIME_KERNEL + kernel];
        register_kernel(handle, &stubs[kernel], name);
    }
    __cudaRegisterFatBinaryEnd(handle);
}

static void launch_by_runtime(struct target target)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    int kernel = roll(RUNTIME_KERNELS);
    dim3 grid = {2, 1, 1}, block = {64, 1, 1};
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = roll(2);
    cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .stream = target.stream, .attrs = &attribute};
    config.numAttrs = roll(2);
    if (one_in(2))
        CU_ON(target, cudaLaunchKernel, cudaLaunchKernel, _ptsz,
              (&stubs[kernel], grid, block, arguments, 0, target.stream));
    else
        CU_ON(target, cudaLaunchKernelExC, cudaLaunchKernelExC, _ptsz, (&config, &stubs[kernel], arguments));
    atomic_fetch_add(&launched[FIRST_RUNTIME_KERNEL + kernel], 1);
}

static void move_by_runtime(struct target target)
{
    struct own *own = mine();
    size_t bytes = 1 + (size_t)roll(1 << 16);
    enum cudaMemcpyKind kind = one_in(2) ? cudaMemcpyDefault : cudaMemcpyHostToDevice;
    if (one_in(2)) {
        CU_ON(target, cudaMemcpyAsync, cudaMemcpyAsync, _ptsz,
              ((void *)own->device, own->pinned, bytes, kind, target.stream));
        count_transfer(HTOD, PINNED_MEMORY, bytes);
    } else {
        CU_ON(target, cudaMemsetAsync, cudaMemsetAsync, _ptsz, ((void *)own->device, 7, bytes, target.stream));
        count_transfer(MEMSET, NO_HOST_MEMORY, bytes);
    }
}

static void step_runtime(void)
{
    struct target target = any_target();
    CUevent event = mine()->events[roll(OWN_EVENTS)];
    void *block;
    if (!has_runtime)
        return;
    target_enter(target);
    for (int left = 1 + roll(6); left > 0; left--) {
        if (one_in(4))
            move_by_runtime(target);
        else
            launch_by_runtime(target);
    }
    if (one_in(3)) {
        CU_ON(target, cudaEventRecord, cudaEventRecord, _ptsz, (event, target.stream));
        CU_ON(target, cudaStreamWaitEvent, cudaStreamWaitEvent, _ptsz, (mine()->streams[0], event, 0));
    }
    if (one_in(3))
        CU_ON(target, cudaStreamSynchronize, cudaStreamSynchronize, _ptsz, (target.stream));
    target_leave(target);
    if (one_in(3)) {
        CU(cudaMalloc, cudaMalloc, (&block, 65536));
        CU(cudaFree, cudaFree, (block));
        atomic_fetch_add(&allocated[DEVICE], 1);
        atomic_fetch_add(&freed[DEVICE], 1);
    }
}
