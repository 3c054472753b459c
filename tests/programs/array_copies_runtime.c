// Copies to, from and between arrays by every runtime call that can, and checks the data that comes back. A copy of a
// number of bytes that spans rows is as many operations as the driver needs calls for it. Prints what was copied and by
// which calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "moved_bytes.h"

// The calls that copy a number of bytes across rows are deprecated.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { WIDTH = 64, HEIGHT = 16, DEPTH = 3, ROW = WIDTH * 4, PLANE = ROW * HEIGHT, BYTES = PLANE * DEPTH };

static cudaArray_t plane, other, box;
static cudaStream_t stream;
static char *pageable, *pinned, *back, *on_device;

#define RT(name, call) COUNTED(#name, call)

static void move_rows(void)
{
    RT(cudaMemcpy2DToArray,
       cudaMemcpy2DToArray(plane, 0, 0, pageable, ROW, ROW, HEIGHT, cudaMemcpyHostToDevice));
    RT(cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray(other, 8, 2, plane, 16, 4, 128, 8, cudaMemcpyDeviceToDevice));
    RT(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray(back, 128, other, 8, 2, 128, 8, cudaMemcpyDefault));
    for (int row = 0; row < 8; row++)
        REQUIRE(memcmp(back + row * 128, pageable + (row + 4) * ROW + 16, 128) == 0);
    RT(cudaMemcpy2DToArrayAsync,
       cudaMemcpy2DToArrayAsync(plane, 0, 1, pinned, ROW, 100, 5, cudaMemcpyHostToDevice, stream));
    RT(cudaMemcpy2DFromArrayAsync,
       cudaMemcpy2DFromArrayAsync(pinned, ROW, plane, 4, 1, 100, 5, cudaMemcpyDeviceToHost, stream));
    RT(cudaMemcpy2DFromArrayAsync,
       cudaMemcpy2DFromArrayAsync(on_device, ROW, plane, 4, 1, 100, 5, cudaMemcpyDeviceToDevice, stream));
    RT(cudaStreamSynchronize, cudaStreamSynchronize(stream));
    move(HTOD, PAGEABLE, PLANE);
    move(DTOD, NONE, 128 * 8);
    move(DTOH, PAGEABLE, 128 * 8);
    move(HTOD, PINNED, 500);
    move(DTOH, PINNED, 500);
    move(DTOD, NONE, 500);
    cudaError_t wrong = cudaMemcpy2DToArray(plane, 0, 0, pageable, ROW, ROW, HEIGHT, cudaMemcpyDeviceToHost);
    REQUIRE(wrong == cudaErrorInvalidMemcpyDirection);
    COUNT("cudaMemcpy2DToArray", 1);
}

// Starts within a row, covers whole rows, and ends within another.
static void move_on(void)
{
    size_t bytes = 56 + 3 * ROW + 40;
    RT(cudaMemcpyToArray, cudaMemcpyToArray(other, ROW - 56, 1, pageable, bytes, cudaMemcpyHostToDevice));
    RT(cudaMemcpyFromArray, cudaMemcpyFromArray(back, other, ROW - 56, 1, bytes, cudaMemcpyDeviceToHost));
    REQUIRE(memcmp(back, pageable, bytes) == 0);
    RT(cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync(other, 0, 0, pinned, PLANE, cudaMemcpyHostToDevice, stream));
    RT(cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync(pinned, other, 0, 0, PLANE, cudaMemcpyDefault, stream));
    RT(cudaStreamSynchronize, cudaStreamSynchronize(stream));
    RT(cudaMemcpyArrayToArray, cudaMemcpyArrayToArray(plane, 0, 2, other, 0, 5, 4 * ROW, cudaMemcpyDeviceToDevice));
    move(HTOD, PAGEABLE, 56);
    move(HTOD, PAGEABLE, 3 * ROW);
    move(HTOD, PAGEABLE, 40);
    move(DTOH, PAGEABLE, 56);
    move(DTOH, PAGEABLE, 3 * ROW);
    move(DTOH, PAGEABLE, 40);
    move(HTOD, PINNED, PLANE);
    move(DTOH, PINNED, PLANE);
    move(DTOD, NONE, 4 * ROW);
}

// Extents and positions of arrays count elements.
static void move_boxes(void)
{
    struct cudaMemcpy3DParms in = {.kind = cudaMemcpyHostToDevice, .extent = {WIDTH, HEIGHT, DEPTH}, .dstArray = box};
    in.srcPtr = (struct cudaPitchedPtr){pageable, ROW, ROW, HEIGHT};
    RT(cudaMemcpy3D, cudaMemcpy3D(&in));
    struct cudaMemcpy3DParms out = {.kind = cudaMemcpyDeviceToHost, .extent = {10, 4, 2}, .srcArray = box};
    out.srcPos = (struct cudaPos){6, 5, 1};
    out.dstPtr = (struct cudaPitchedPtr){pinned, 40, 40, 4};
    RT(cudaMemcpy3DAsync, cudaMemcpy3DAsync(&out, stream));
    RT(cudaStreamSynchronize, cudaStreamSynchronize(stream));
    for (int row = 0; row < 8; row++)
        REQUIRE(memcmp(pinned + row * 40, pageable + ((1 + row / 4) * HEIGHT + 5 + row % 4) * ROW + 24, 40) == 0);
    move(HTOD, PAGEABLE, BYTES);
    move(DTOH, PINNED, 40 * 8);
}

int main(void)
{
    struct cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    RT(cudaStreamCreate, cudaStreamCreate(&stream));
    RT(cudaMallocHost, cudaMallocHost((void **)&pinned, BYTES));
    RT(cudaMalloc, cudaMalloc((void **)&on_device, BYTES));
    RT(cudaMallocArray, cudaMallocArray(&plane, &format, WIDTH, HEIGHT, 0));
    RT(cudaMallocArray, cudaMallocArray(&other, &format, WIDTH, HEIGHT, 0));
    RT(cudaMalloc3DArray, cudaMalloc3DArray(&box, &format, (struct cudaExtent){WIDTH, HEIGHT, DEPTH}, 0));
    REQUIRE((pageable = calloc(1, BYTES)) != NULL && (back = calloc(1, BYTES)) != NULL);
    for (int at = 0; at < BYTES; at++)
        pageable[at] = (char)(at * 7 + at / 256);
    move_rows();
    move_on();
    move_boxes();
    RT(cudaFreeArray, cudaFreeArray(box));
    printf("{\"program\":\"array_copies_runtime\",");
    print_moved();
    printf(",");
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
