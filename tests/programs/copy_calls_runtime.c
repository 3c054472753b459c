// Moves bytes by the runtime calls that other clients do not use: by rows and slices, to symbols, to a peer, and
// prefetches of managed memory; and makes cooperative launches. Checks the data that comes back. Prints what was moved
// and by which calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"
#include "moved_bytes.h"

// cudaThreadSynchronize.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { ROW = 100, ROWS = 16, SLICES = 3, PITCH = 128, BYTES = PITCH * ROWS * SLICES };

void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name, int external, size_t bytes,
                       int constant, int global);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
cudaError_t cudaMemPrefetchAsync_v2(const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t);

static char symbol[256];

static void stub_5us(void) {}

#define RT(name, call) COUNTED(#name, call)

static void register_code(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub_5us, "moving_5us");
    __cudaRegisterVar(handle, symbol, symbol, "symbol", 0, sizeof symbol, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

int main(void)
{
    char *pageable = calloc(1, BYTES), *back = calloc(1, BYTES), *pinned, *first, *second, *managed;
    cudaStream_t stream;
    size_t volume = ROW * ROWS * SLICES;
    register_code();
    RT(cudaStreamCreate, cudaStreamCreate(&stream));
    RT(cudaMallocHost, cudaMallocHost((void **)&pinned, BYTES));
    RT(cudaMalloc, cudaMalloc((void **)&first, BYTES));
    RT(cudaMalloc, cudaMalloc((void **)&second, BYTES));
    RT(cudaMallocManaged, cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    for (int at = 0; at < BYTES; at++)
        pageable[at] = (char)(at * 5);

    RT(cudaMemcpy2D, cudaMemcpy2D(first, PITCH, pageable, PITCH, ROW, ROWS, cudaMemcpyHostToDevice));
    RT(cudaMemcpy2D, cudaMemcpy2D(back, PITCH, first, PITCH, ROW, ROWS, cudaMemcpyDefault));
    for (int row = 0; row < ROWS; row++)
        REQUIRE(memcmp(back + row * PITCH, pageable + row * PITCH, ROW) == 0);
    RT(cudaMemcpy2DAsync, cudaMemcpy2DAsync(first, PITCH, pinned, PITCH, ROW, ROWS, cudaMemcpyHostToDevice, stream));
    move(HTOD, PAGEABLE, ROW * ROWS);
    move(DTOH, PAGEABLE, ROW * ROWS);
    move(HTOD, PINNED, ROW * ROWS);

    struct cudaMemcpy3DParms slices = {.kind = cudaMemcpyDeviceToDevice, .extent = {ROW, ROWS, SLICES}};
    slices.srcPtr = (struct cudaPitchedPtr){first, PITCH, ROW, ROWS};
    slices.dstPtr = (struct cudaPitchedPtr){second, PITCH, ROW, ROWS};
    RT(cudaMemcpy3D, cudaMemcpy3D(&slices));
    RT(cudaMemcpy3DAsync, cudaMemcpy3DAsync(&slices, stream));
    struct cudaMemcpy3DPeerParms peer = {.extent = {ROW, ROWS, SLICES}, .srcPtr = slices.srcPtr, .dstPtr = slices.dstPtr};
    RT(cudaMemcpy3DPeer, cudaMemcpy3DPeer(&peer));
    RT(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync(&peer, stream));
    RT(cudaMemcpyPeer, cudaMemcpyPeer(second, 0, first, 0, ROW));
    RT(cudaMemcpyPeerAsync, cudaMemcpyPeerAsync(second, 0, first, 0, ROW, stream));
    for (int twice = 0; twice < 2; twice++) {
        move(DTOD, NONE, volume);
        move(PTOP, NONE, volume);
        move(PTOP, NONE, ROW);
    }

    RT(cudaMemcpyToSymbol, cudaMemcpyToSymbol(symbol, pageable, 100, 8, cudaMemcpyHostToDevice));
    RT(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol(back, symbol, 100, 8, cudaMemcpyDeviceToHost));
    REQUIRE(memcmp(back, pageable, 100) == 0);
    RT(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync(symbol, pinned, 50, 0, cudaMemcpyHostToDevice, stream));
    RT(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync(pinned, symbol, 50, 0, cudaMemcpyDeviceToHost, stream));
    move(HTOD, PAGEABLE, 100);
    move(DTOH, PAGEABLE, 100);
    move(HTOD, PINNED, 50);
    move(DTOH, PINNED, 50);
    REQUIRE(cudaMemcpyToSymbol(symbol, pageable, 1, sizeof symbol, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    COUNT("cudaMemcpyToSymbol", 1);

    RT(cudaMemset2D, cudaMemset2D(first, PITCH, 1, ROW, ROWS));
    RT(cudaMemset2DAsync, cudaMemset2DAsync(first, PITCH, 1, ROW, ROWS, stream));
    move(SET, NONE, ROW * ROWS);
    move(SET, NONE, ROW * ROWS);
    // By the driver's rows: an operation for each slice, and one call.
    RT(cudaMemset3D, cudaMemset3D(slices.dstPtr, 2, slices.extent));
    RT(cudaMemset3DAsync, cudaMemset3DAsync(slices.dstPtr, 2, slices.extent, stream));
    for (int slice = 0; slice < 2 * SLICES; slice++)
        move(SET, NONE, ROW * ROWS);

    struct cudaMemLocation there = {.type = cudaMemLocationTypeDevice, .id = 0};
    RT(cudaMemPrefetchAsync, cudaMemPrefetchAsync_v2(managed, BYTES, there, 0, stream));
    RT(cudaMemAdvise, cudaMemAdvise_v2(managed, BYTES, cudaMemAdviseSetAccessedBy, there));
    RT(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle));
    move(HTOD, MANAGED, BYTES);

    dim3 one = {1, 1, 1}, block = {32, 1, 1};
    RT(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel((const void *)stub_5us, one, block, NULL, 0, stream));
    RT(cudaFuncSetCacheConfig, cudaFuncSetCacheConfig((const void *)stub_5us, cudaFuncCachePreferL1));
    RT(cudaProfilerStart, cudaProfilerStart());
    RT(cudaProfilerStop, cudaProfilerStop());
    RT(cudaThreadSynchronize, cudaThreadSynchronize());
    printf("{\"program\":\"copy_calls_runtime\",\"launches\":1,");
    print_moved();
    printf(",");
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
