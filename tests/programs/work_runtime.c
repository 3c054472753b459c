// Does the known work (work.h) in a program that links the CUDA runtime dynamically, and registers and launches its
// kernels the way nvcc's output does. Thread 3 makes the calls of a build with --default-stream per-thread.
//
// The fat binary that it registers contains no device code, so it runs on the simulated runtime only.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "fat_binary.h"
#include "work.h"

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               cudaStream_t stream);
extern __typeof__(__cudaLaunchKernel) __cudaLaunchKernel_ptsz;

// The per-thread variants, to which the header only maps other names.
extern __typeof__(cudaLaunchKernel) cudaLaunchKernel_ptsz;
extern __typeof__(cudaLaunchKernelExC) cudaLaunchKernelExC_ptsz;
extern __typeof__(cudaMemcpy) cudaMemcpy_ptds;
extern __typeof__(cudaMemcpyAsync) cudaMemcpyAsync_ptsz;
extern __typeof__(cudaMemset) cudaMemset_ptds;
extern __typeof__(cudaMemsetAsync) cudaMemsetAsync_ptsz;
extern __typeof__(cudaMallocAsync) cudaMallocAsync_ptsz;
extern __typeof__(cudaFreeAsync) cudaFreeAsync_ptsz;
extern __typeof__(cudaEventRecord) cudaEventRecord_ptsz;
extern __typeof__(cudaStreamWaitEvent) cudaStreamWaitEvent_ptsz;
extern __typeof__(cudaStreamSynchronize) cudaStreamSynchronize_ptsz;

static _Thread_local bool per_thread;

#define ON_STREAM(name, suffix, arguments) COUNTED(#name, per_thread ? name##suffix arguments : name arguments)
#define RT(name, arguments) COUNTED(#name, name arguments)

// ---- kernels, as compiled code has them: each a host stub whose address identifies the kernel ----

static void stub_2us(void) {}
static void stub_5us(void) {}
static void stub_20us(void) {}
static void (*const stubs[KERNELS])(void) = {stub_2us, stub_5us, stub_20us};
static cudaKernel_t handles[KERNELS];

static void **binary_handle;

static void unregister(void)
{
    __cudaUnregisterFatBinary(binary_handle);
}

__attribute__((constructor)) static void register_kernels(void)
{
    binary_handle = begin_fat_binary();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        register_kernel(binary_handle, (const void *)stubs[kernel], kernel_names[kernel]);
    __cudaRegisterFatBinaryEnd(binary_handle);
    atexit(unregister);
}

// ---- the work ----

static void enter(int thread)
{
    per_thread = thread == 3;
    RT(cudaSetDevice, (0));
}

static void *stream_create(bool blocking)
{
    cudaStream_t stream;
    RT(cudaStreamCreateWithFlags, (&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    return stream;
}

static void stream_destroy(void *stream)
{
    RT(cudaStreamDestroy, (stream));
}

static void *event_create(void)
{
    cudaEvent_t event;
    RT(cudaEventCreateWithFlags, (&event, cudaEventDisableTiming));
    return event;
}

static void event_destroy(void *event)
{
    RT(cudaEventDestroy, (event));
}

static void launch(int kernel, int turn, void *stream, void **arguments)
{
    dim3 grid = {4, 1, 1}, block = {64, 1, 1};
    const void *stub = (const void *)stubs[kernel];
    if (turn % 3 == 0) {
        // kernel<<<grid, block, 0, stream>>>(…), as nvcc 12 and older compile it.
        size_t shared_bytes;
        cudaStream_t popped;
        REQUIRE(__cudaPushCallConfiguration(grid, block, 0, stream) == 0);
        CHECK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &popped));
        ON_STREAM(cudaLaunchKernel, _ptsz, (stub, grid, block, arguments, shared_bytes, popped));
    } else if (turn % 3 == 1) {
        ON_STREAM(__cudaLaunchKernel, _ptsz, (handles[kernel], grid, block, arguments, 0, stream));
    } else {
        cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .stream = stream};
        ON_STREAM(cudaLaunchKernelExC, _ptsz, (&config, stub, arguments));
    }
}

static void copy(enum copy_kind kind, bool async, void *to, const void *from, size_t bytes, void *stream)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice};
    if (async)
        ON_STREAM(cudaMemcpyAsync, _ptsz, (to, from, bytes, kinds[kind], stream));
    else
        ON_STREAM(cudaMemcpy, _ptds, (to, from, bytes, kinds[kind]));
}

static void set(bool async, void *to, size_t bytes, void *stream)
{
    if (async)
        ON_STREAM(cudaMemsetAsync, _ptsz, (to, 7, bytes, stream));
    else
        ON_STREAM(cudaMemset, _ptds, (to, 7, bytes));
}

static void *allocate(enum memory memory, size_t bytes, void *stream)
{
    void *block = NULL;
    if (memory == DEVICE)
        RT(cudaMalloc, (&block, bytes));
    else if (memory == MANAGED)
        RT(cudaMallocManaged, (&block, bytes, cudaMemAttachGlobal));
    else if (memory == POOL)
        ON_STREAM(cudaMallocAsync, _ptsz, (&block, bytes, stream));
    else
        RT(cudaHostAlloc, (&block, bytes, cudaHostAllocDefault));
    return block;
}

static void release(enum memory memory, void *block, void *stream)
{
    if (memory == HOST)
        RT(cudaFreeHost, (block));
    else if (memory == POOL)
        ON_STREAM(cudaFreeAsync, _ptsz, (block, stream));
    else
        RT(cudaFree, (block));
}

static void record(void *event, void *stream)
{
    ON_STREAM(cudaEventRecord, _ptsz, (event, stream));
}

static void wait_event(void *stream, void *event)
{
    ON_STREAM(cudaStreamWaitEvent, _ptsz, (stream, event, 0));
}

static void synchronize(enum sync what, void *handle)
{
    if (what == SYNC_STREAM)
        ON_STREAM(cudaStreamSynchronize, _ptsz, (handle));
    else if (what == SYNC_EVENT)
        RT(cudaEventSynchronize, (handle));
    else
        RT(cudaDeviceSynchronize, ());
}

int main(void)
{
    work = (struct work_api){
        .enter = enter,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .launch = launch,
        .copy = copy,
        .set = set,
        .allocate = allocate,
        .release = release,
        .record = record,
        .wait = wait_event,
        .synchronize = synchronize,
    };
    for (int kernel = 0; kernel < KERNELS; kernel++)
        CHECK(__cudaGetKernel(&handles[kernel], (const void *)stubs[kernel]));
    do_work("work_runtime");
    return 0;
}
