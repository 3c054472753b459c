// Moves bytes by every driver call that can: by rows, by slices, to a peer, in batches, memsets by rows, and prefetches
// of managed memory; and decompresses a batch, whose number of bytes is unknown. Each call in its synchronous,
// asynchronous and per-thread variants where they exist. Checks the data that comes back. Prints what was moved and by
// which calls.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <sys/mman.h>

#include "common.h"
#include "moved_bytes.h"

enum { ROW = 100, ROWS = 16, SLICES = 3, PITCH = 128, BYTES = PITCH * ROWS * SLICES, BATCH = 3 };

static CUcontext context;
static CUdevice device;
static CUstream stream;
static CUdeviceptr first, second, managed;
static char *pageable, *pinned, *back;

// Functions of CUDA 13, which older headers do not declare.
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                               CUstream);
CUresult cuMemcpy3DBatchAsync_v2(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long,
                                 CUstream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
                                           unsigned long long, CUstream);

CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *, size_t, unsigned, size_t *, CUstream);

#define CU(name, call) COUNTED(#name, call)

static void wait(void)
{
    CU(cuStreamSynchronize, cuStreamSynchronize(stream));
}

static CUDA_MEMCPY2D rows(void *host, CUdeviceptr on_device, bool to_device)
{
    CUDA_MEMCPY2D copy = {.WidthInBytes = ROW, .Height = ROWS, .srcPitch = PITCH, .dstPitch = PITCH};
    copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.srcHost = copy.dstHost = host;
    copy.srcDevice = copy.dstDevice = on_device;
    return copy;
}

static void move_rows(void)
{
    CUDA_MEMCPY2D in = rows(pageable, first, true), out = rows(back, first, false), quick = rows(pinned, first, true);
    CU(cuMemcpy2D, cuMemcpy2D_v2(&in));
    CU(cuMemcpy2D, cuMemcpy2D_v2_ptds(&in));
    CU(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2(&out));
    CU(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2_ptds(&out));
    for (int row = 0; row < ROWS; row++)
        REQUIRE(memcmp(back + row * PITCH, pageable + row * PITCH, ROW) == 0);
    CU(cuMemcpy2DAsync, cuMemcpy2DAsync_v2(&quick, stream));
    CU(cuMemcpy2DAsync, cuMemcpy2DAsync_v2_ptsz(&quick, stream));
    for (int twice = 0; twice < 2; twice++) {
        move(HTOD, PAGEABLE, ROW * ROWS);
        move(DTOH, PAGEABLE, ROW * ROWS);
        move(HTOD, PINNED, ROW * ROWS);
    }
    // Zero rows: a call, and no work.
    quick.Height = 0;
    CU(cuMemcpy2DAsync, cuMemcpy2DAsync_v2(&quick, stream));
    wait();
}

static void move_slices(void)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = ROW, .Height = ROWS, .Depth = SLICES, .srcPitch = PITCH, .dstPitch = PITCH};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcHeight = copy.dstHeight = ROWS;
    copy.srcDevice = (CUdeviceptr)pageable;
    copy.dstDevice = second;
    CU(cuMemcpy3D, cuMemcpy3D_v2(&copy));
    CU(cuMemcpy3D, cuMemcpy3D_v2_ptds(&copy));
    copy.srcDevice = second;
    copy.dstDevice = first;
    CU(cuMemcpy3DAsync, cuMemcpy3DAsync_v2(&copy, stream));
    CU(cuMemcpy3DAsync, cuMemcpy3DAsync_v2_ptsz(&copy, stream));
    CUDA_MEMCPY3D_PEER peer = {.WidthInBytes = ROW, .Height = ROWS, .Depth = SLICES, .srcPitch = PITCH, .dstPitch = PITCH};
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    peer.srcHeight = peer.dstHeight = ROWS;
    peer.srcContext = peer.dstContext = context;
    peer.srcDevice = first;
    peer.dstDevice = second;
    CU(cuMemcpy3DPeer, cuMemcpy3DPeer(&peer));
    CU(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds(&peer));
    CU(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync(&peer, stream));
    CU(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz(&peer, stream));
    size_t bytes = ROW * ROWS * SLICES;
    for (int twice = 0; twice < 2; twice++) {
        move(HTOD, PAGEABLE, bytes);
        move(DTOD, NONE, bytes);
        move(PTOP, NONE, bytes);
        move(PTOP, NONE, bytes);
    }
    wait();
}

static void move_batches(void)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr from[BATCH], to[BATCH];
    size_t sizes[BATCH], bytes = 0, start = 0, failed = 0;
    for (int copy = 0; copy < BATCH; copy++) {
        from[copy] = (CUdeviceptr)pinned + (size_t)copy * 1000;
        to[copy] = first + (size_t)copy * 1000;
        bytes += sizes[copy] = (size_t)(copy + 1) * 100;
    }
    CU(cuMemcpyBatchAsync, cuMemcpyBatchAsync(to, from, sizes, BATCH, &attributes, &start, 1, &failed, stream));
    CU(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz(to, from, sizes, BATCH, &attributes, &start, 1, &failed, stream));
    CU(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2(to, from, sizes, BATCH, &attributes, &start, 1, stream));
    for (int times = 0; times < 3; times++)
        move(HTOD, PINNED, bytes);
    CU(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync((CUdeviceptr)pinned, first, ROW, &attributes, stream));
    move(DTOH, PINNED, ROW);
    CUDA_MEMCPY3D_BATCH_OP operations[BATCH] = {0};
    for (int copy = 0; copy < BATCH; copy++) {
        CUDA_MEMCPY3D_BATCH_OP *operation = &operations[copy];
        operation->src.type = operation->dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        operation->src.op.ptr.ptr = first;
        operation->dst.op.ptr.ptr = second + (size_t)copy * 1000;
        operation->extent.width = 10;
        operation->extent.height = 5;
        operation->extent.depth = 2;
        operation->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    CU(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync(BATCH, operations, &failed, 0, stream));
    CU(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2(BATCH, operations, 0, stream));
    move(DTOD, NONE, BATCH * 100);
    move(DTOD, NONE, BATCH * 100);
    CU(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync(operations, 0, stream));
    move(DTOD, NONE, 100);
    // A batch is not allowed on the legacy default stream.
    REQUIRE(cuMemcpyBatchAsync(to, from, sizes, BATCH, &attributes, &start, 1, &failed, NULL) == CUDA_ERROR_INVALID_VALUE);
    COUNT("cuMemcpyBatchAsync", 1);
    wait();
}

static void decompress(void)
{
    CUmemDecompressParams both[2] = {{.srcNumBytes = 100, .dstNumBytes = 1000, .src = (void *)first, .dst = (void *)second,
                                      .dstActBytes = (cuuint32_t *)(second + 2000), .algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4}};
    size_t failed;
    both[1] = both[0];
    CU(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync(both, 2, 0, &failed, stream));
    CU(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz(both, 2, 0, NULL, stream));
    both[1].src = pageable;
    REQUIRE(cuMemBatchDecompressAsync(both, 2, 0, &failed, stream) == CUDA_ERROR_INVALID_VALUE && failed == 1);
    COUNT("cuMemBatchDecompressAsync", 1);
    wait();
}

static void set_rows(void)
{
    CU(cuMemsetD2D8, cuMemsetD2D8_v2(first, PITCH, 1, ROW, ROWS));
    CU(cuMemsetD2D8, cuMemsetD2D8_v2_ptds(first, PITCH, 1, ROW, ROWS));
    CU(cuMemsetD2D16, cuMemsetD2D16_v2(first, PITCH, 2, ROW / 2, ROWS));
    CU(cuMemsetD2D32, cuMemsetD2D32_v2(first, PITCH, 3, ROW / 4, ROWS));
    CU(cuMemsetD2D8Async, cuMemsetD2D8Async(first, PITCH, 4, ROW, ROWS, stream));
    CU(cuMemsetD2D16Async, cuMemsetD2D16Async(first, PITCH, 5, ROW / 2, ROWS, stream));
    CU(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz(first, PITCH, 6, ROW / 4, ROWS, stream));
    for (int set = 0; set < 7; set++)
        move(SET, NONE, ROW * ROWS);
    wait();
}

static void move_managed(void)
{
    CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, here = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CU(cuMemAdvise, cuMemAdvise(managed, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    CU(cuMemAdvise, cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, there));
    CU(cuMemPrefetchAsync, cuMemPrefetchAsync(managed, BYTES, device, stream));
    CU(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz(managed, BYTES, CU_DEVICE_CPU, stream));
    CU(cuMemPrefetchAsync, cuMemPrefetchAsync_v2(managed, BYTES, there, 0, stream));
    CU(cuMemPrefetchAsync, cuMemPrefetchAsync_v2_ptsz(managed, BYTES, here, 0, stream));
    CUdeviceptr ranges[2] = {managed, managed + 1000};
    size_t sizes[2] = {100, 200}, start = 0;
    CU(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync(ranges, sizes, 2, &there, &start, 1, 0, stream));
    // No location is valid: the driver refuses, so a tracer must not read the locations.
    CUmemLocation *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(cuMemPrefetchBatchAsync(ranges, sizes, 2, nowhere, &start, 0, 0, stream) == CUDA_ERROR_INVALID_VALUE);
    COUNT("cuMemPrefetchBatchAsync", 1);
    CU(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync(ranges, sizes, 2, 0, stream));
    CU(cuMemDiscardAndPrefetchBatchAsync,
       cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 2, &here, &start, 1, 0, stream));
    CU(cuStreamAttachMemAsync, cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
    for (int twice = 0; twice < 2; twice++) {
        move(HTOD, MANAGED, BYTES);
        move(DTOH, MANAGED, BYTES);
    }
    move(HTOD, MANAGED, 300);
    move(DTOH, MANAGED, 300);
    wait();
}

int main(void)
{
    CU(cuInit, cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CU(cuStreamCreate, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc, cuMemAlloc_v2(&first, BYTES));
    CU(cuMemAlloc, cuMemAlloc_v2(&second, BYTES));
    CU(cuMemAllocManaged, cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemAllocHost, cuMemAllocHost_v2((void **)&pinned, BYTES));
    REQUIRE((pageable = calloc(1, BYTES)) != NULL && (back = calloc(1, BYTES)) != NULL);
    for (int at = 0; at < BYTES; at++)
        pageable[at] = (char)(at * 7);
    move_rows();
    move_slices();
    move_batches();
    decompress();
    set_rows();
    move_managed();
    printf("{\"program\":\"copy_calls\",");
    print_moved();
    printf(",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
