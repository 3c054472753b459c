// Copies to, from and between arrays by every driver call that can: lines, planes, boxes and mipmap levels, by
// synchronous, asynchronous and per-thread variants. Checks the data that comes back. Prints what was copied and by
// which calls.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include "driver.h"
#include "moved_bytes.h"

enum { LINE = 4096, WIDTH = 64, HEIGHT = 16, DEPTH = 3, ROW = WIDTH * 4, BYTES = ROW * HEIGHT * DEPTH };

static CUarray line, other, plane, box;
static CUmipmappedArray levels;
static CUstream stream;
static CUdeviceptr on_device;
static char *pageable, *pinned, *back;

#define CU(name, call) COUNTED(#name, call)

static CUarray new_array(size_t width, size_t height, size_t depth)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, depth, CU_AD_FORMAT_FLOAT, 1, 0};
    CUarray array;
    CU(cuArray3DCreate, cuArray3DCreate_v2(&array, &shape));
    return array;
}

static void move_lines(void)
{
    CU(cuMemcpyHtoA, cuMemcpyHtoA_v2(line, 0, pageable, LINE));
    CU(cuMemcpyHtoA, cuMemcpyHtoA_v2_ptds(line, 0, pageable, LINE));
    CU(cuMemcpyAtoA, cuMemcpyAtoA_v2(other, 16, line, 32, LINE / 2));
    CU(cuMemcpyAtoA, cuMemcpyAtoA_v2_ptds(other, 16, line, 32, LINE / 2));
    CU(cuMemcpyAtoD, cuMemcpyAtoD_v2(on_device, other, 16, LINE / 2));
    CU(cuMemcpyAtoD, cuMemcpyAtoD_v2_ptds(on_device, other, 16, LINE / 2));
    CU(cuMemcpyDtoA, cuMemcpyDtoA_v2(line, 0, on_device, LINE / 2));
    CU(cuMemcpyDtoA, cuMemcpyDtoA_v2_ptds(line, 0, on_device, LINE / 2));
    CU(cuMemcpyAtoH, cuMemcpyAtoH_v2(back, line, 0, LINE / 2));
    CU(cuMemcpyAtoH, cuMemcpyAtoH_v2_ptds(back, line, 0, LINE / 2));
    REQUIRE(memcmp(back, pageable + 32, LINE / 2) == 0);
    CU(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2(line, 0, pinned, LINE, stream));
    CU(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2_ptsz(line, 0, pinned, LINE, stream));
    CU(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2(pinned, line, 0, LINE, stream));
    CU(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2_ptsz(pinned, line, 0, LINE, stream));
    CU(cuStreamSynchronize, cuStreamSynchronize(stream));
    for (int twice = 0; twice < 2; twice++) {
        move(HTOD, PAGEABLE, LINE);
        for (int each = 0; each < 3; each++)
            move(DTOD, NONE, LINE / 2);
        move(DTOH, PAGEABLE, LINE / 2);
        move(HTOD, PINNED, LINE);
        move(DTOH, PINNED, LINE);
    }
}

static void move_planes(void)
{
    CUDA_MEMCPY2D in = {.WidthInBytes = ROW, .Height = HEIGHT, .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = pageable};
    in.srcPitch = ROW;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    in.dstArray = plane;
    CU(cuMemcpy2D, cuMemcpy2D_v2(&in));
    move(HTOD, PAGEABLE, ROW * HEIGHT);
    CUDA_MEMCPY2D out = {.WidthInBytes = ROW / 2, .Height = HEIGHT / 2, .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = plane};
    out.srcXInBytes = 8;
    out.srcY = 3;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = pinned;
    out.dstPitch = ROW;
    CU(cuMemcpy2DAsync, cuMemcpy2DAsync_v2(&out, stream));
    CU(cuStreamSynchronize, cuStreamSynchronize(stream));
    move(DTOH, PINNED, ROW / 2 * (HEIGHT / 2));
    for (int row = 0; row < HEIGHT / 2; row++)
        REQUIRE(memcmp(pinned + row * ROW, pageable + (row + 3) * ROW + 8, ROW / 2) == 0);
    CUDA_MEMCPY2D within = out;
    within.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    within.dstDevice = on_device;
    CU(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2(&within));
    move(DTOD, NONE, ROW / 2 * (HEIGHT / 2));
}

static void move_boxes(void)
{
    CUDA_MEMCPY3D in = {.WidthInBytes = ROW, .Height = HEIGHT, .Depth = DEPTH, .srcMemoryType = CU_MEMORYTYPE_HOST};
    in.srcHost = pageable;
    in.srcPitch = ROW;
    in.srcHeight = HEIGHT;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    in.dstArray = box;
    CU(cuMemcpy3D, cuMemcpy3D_v2(&in));
    move(HTOD, PAGEABLE, BYTES);
    CUDA_MEMCPY3D slice = {.WidthInBytes = ROW, .Height = HEIGHT, .Depth = 1, .srcMemoryType = CU_MEMORYTYPE_ARRAY};
    slice.srcArray = box;
    slice.srcZ = 2;
    slice.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    slice.dstArray = plane;
    CU(cuMemcpy3DAsync, cuMemcpy3DAsync_v2(&slice, stream));
    move(DTOD, NONE, ROW * HEIGHT);
    CUDA_MEMCPY3D out = slice;
    CHECK(cuMipmappedArrayGetLevel(&out.dstArray, levels, 1));
    out.WidthInBytes = ROW / 2;
    out.Height = HEIGHT / 2;
    CU(cuMemcpy3DAsync, cuMemcpy3DAsync_v2(&out, stream));
    move(DTOD, NONE, ROW / 2 * (HEIGHT / 2));
    out.srcArray = out.dstArray;
    out.srcZ = 0;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = back;
    out.dstPitch = ROW / 2;
    CU(cuStreamSynchronize, cuStreamSynchronize(stream));
    CU(cuMemcpy3D, cuMemcpy3D_v2(&out));
    move(DTOH, PAGEABLE, ROW / 2 * (HEIGHT / 2));
    for (int row = 0; row < HEIGHT / 2; row++)
        REQUIRE(memcmp(back + row * ROW / 2, pageable + (2 * HEIGHT + row) * ROW, ROW / 2) == 0);
}

int main(void)
{
    start_cuda();
    CU(cuStreamCreate, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc, cuMemAlloc_v2(&on_device, BYTES));
    CU(cuMemAllocHost, cuMemAllocHost_v2((void **)&pinned, BYTES));
    REQUIRE((pageable = calloc(1, BYTES)) != NULL && (back = calloc(1, BYTES)) != NULL);
    for (int at = 0; at < BYTES; at++)
        pageable[at] = (char)(at * 7 + at / 256);
    line = new_array(LINE / 4, 0, 0);
    other = new_array(LINE / 4, 0, 0);
    plane = new_array(WIDTH, HEIGHT, 0);
    box = new_array(WIDTH, HEIGHT, DEPTH);
    CUDA_ARRAY3D_DESCRIPTOR shape = {WIDTH, HEIGHT, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CU(cuMipmappedArrayCreate, cuMipmappedArrayCreate(&levels, &shape, 2));
    move_lines();
    move_planes();
    move_boxes();
    CU(cuArrayDestroy, cuArrayDestroy(box));
    CU(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy(levels));
    printf("{\"program\":\"array_copies\",");
    print_moved();
    printf(",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
