// Makes the runtime calls whose last arguments differ between CUDA 12 and CUDA 13 under the same names. The including
// file defines BATCH(function, to, from, sizes, count, attributes, start, stream), BATCH_3D(function, count,
// operations, stream) and PREFETCH(function, address, bytes, device, stream), for each function and its variant of the
// thread's own default stream, and ADVISE(address, bytes, advice, device); a device of cudaCpuDeviceId is the host.
// Prints what was moved, and the calls.
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"
#include "moved_bytes.h"

enum { COPIES = 3, BYTES = 4096 };

#define RT(name, call) COUNTED(#name, call)

static int run_versions(const char *program)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    struct cudaMemcpy3DBatchOp operations[COPIES] = {0};
    char *pinned, *first, *second, *managed;
    void *from[COPIES], *to[COPIES];
    size_t sizes[COPIES], bytes = 0, start = 0;
    cudaStream_t stream;
    RT(cudaStreamCreate, cudaStreamCreate(&stream));
    RT(cudaMallocHost, cudaMallocHost((void **)&pinned, BYTES));
    RT(cudaMalloc, cudaMalloc((void **)&first, BYTES));
    RT(cudaMalloc, cudaMalloc((void **)&second, BYTES));
    RT(cudaMallocManaged, cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    for (int copy = 0; copy < COPIES; copy++) {
        from[copy] = pinned + copy * 1000;
        to[copy] = first + copy * 1000;
        bytes += sizes[copy] = (size_t)(copy + 1) * 100;
        operations[copy].src.type = operations[copy].dst.type = cudaMemcpyOperandTypePointer;
        operations[copy].src.op.ptr.ptr = first;
        operations[copy].dst.op.ptr.ptr = second + copy * 1000;
        operations[copy].extent.width = 10;
        operations[copy].extent.height = 5;
        operations[copy].extent.depth = 2;
        operations[copy].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
    RT(cudaMemcpyBatchAsync, BATCH(cudaMemcpyBatchAsync, to, from, sizes, COPIES, &attributes, &start, stream));
    RT(cudaMemcpyBatchAsync, BATCH(cudaMemcpyBatchAsync_ptsz, to, from, sizes, COPIES, &attributes, &start, stream));
    RT(cudaMemcpy3DBatchAsync, BATCH_3D(cudaMemcpy3DBatchAsync, COPIES, operations, stream));
    RT(cudaMemcpy3DBatchAsync, BATCH_3D(cudaMemcpy3DBatchAsync_ptsz, COPIES, operations, stream));
    // A batch is not allowed on the legacy default stream, but is on the thread's own.
    REQUIRE(BATCH(cudaMemcpyBatchAsync, to, from, sizes, COPIES, &attributes, &start, NULL) == cudaErrorInvalidValue);
    COUNT("cudaMemcpyBatchAsync", 1);
    RT(cudaMemcpyBatchAsync, BATCH(cudaMemcpyBatchAsync_ptsz, to, from, sizes, COPIES, &attributes, &start, NULL));
    for (int times = 0; times < 3; times++)
        move(HTOD, PINNED, bytes);
    for (int times = 0; times < 2; times++)
        move(DTOD, NONE, COPIES * 100);
    RT(cudaMemPrefetchAsync, PREFETCH(cudaMemPrefetchAsync, managed, BYTES, 0, stream));
    RT(cudaMemPrefetchAsync, PREFETCH(cudaMemPrefetchAsync_ptsz, managed, 1000, cudaCpuDeviceId, stream));
    RT(cudaMemAdvise, ADVISE(managed, BYTES, cudaMemAdviseSetAccessedBy, 0));
    move(HTOD, MANAGED, BYTES);
    move(DTOH, MANAGED, 1000);
    RT(cudaDeviceSynchronize, cudaDeviceSynchronize());
    printf("{\"program\":\"%s\",", program);
    print_moved();
    printf(",");
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
