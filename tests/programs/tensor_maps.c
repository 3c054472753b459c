// Encodes tensor maps as a library of kernels does before it launches: for existing memory, again for another block,
// and with each thing that cuda.h forbids. Allocates no memory for them, and launches nothing.
// headers: cuda-13
// link: -l:libcuda.so.1
#include "driver.h"

enum { RANK = 3, COLUMNS = 4 };

static CUdeviceptr memory;
static CUtensorMap map;

struct tiled {
    CUtensorMap *map;
    CUtensorMapDataType type;
    unsigned rank;
    CUdeviceptr address;
    cuuint64_t size[5], strides[4];
    cuuint32_t box[5], steps[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapFloatOOBfill fill;
};

static struct tiled right(void)
{
    return (struct tiled){.map = &map, .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16, .rank = RANK, .address = memory,
                          .size = {256, 64, 4}, .strides = {512, 512 * 64}, .box = {64, 8, 1}, .steps = {1, 1, 1},
                          .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
}

static CUresult encode(struct tiled of)
{
    COUNT("cuTensorMapEncodeTiled", 1);
    return cuTensorMapEncodeTiled(of.map, of.type, of.rank, (void *)of.address, of.size, of.strides, of.box, of.steps,
                                  of.interleave, of.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, of.fill);
}

#define REFUSED(member, wrong)                                                                                         \
    do {                                                                                                               \
        struct tiled tiled_ = right();                                                                                 \
        tiled_.member = (wrong);                                                                                       \
        REQUIRE(encode(tiled_) == CUDA_ERROR_INVALID_VALUE);                                                           \
    } while (0)

static void refused(void)
{
    REFUSED(map, NULL);
    REFUSED(map, (CUtensorMap *)((char *)&map + 8));
    REFUSED(type, (CUtensorMapDataType)16);
    REFUSED(rank, 0);
    REFUSED(rank, 6);
    REFUSED(address, memory + 8);
    REFUSED(size[1], 0);
    REFUSED(size[0], ((cuuint64_t)1 << 31) + 1);
    REFUSED(strides[0], 520);
    REFUSED(strides[1], (cuuint64_t)1 << 40);
    REFUSED(box[1], 257);
    REFUSED(box[0], 65);
    REFUSED(box[0], 128);
    REFUSED(steps[2], 9);
    REFUSED(swizzle, (CUtensorMapSwizzle)9);
    REFUSED(interleave, CU_TENSOR_MAP_INTERLEAVE_32B);
    struct tiled integers = right();
    integers.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
    integers.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    REQUIRE(encode(integers) == CUDA_ERROR_INVALID_VALUE);
}

static CUresult columns(int lower)
{
    static const cuuint64_t size[COLUMNS] = {64, 32, 32, 8}, strides[COLUMNS - 1] = {128, 4096, 131072};
    static const cuuint32_t steps[COLUMNS] = {1, 1, 1, 1};
    int lowest[COLUMNS - 2] = {lower, -1}, highest[COLUMNS - 2] = {1, 1};
    return cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, COLUMNS, (void *)memory, size, strides, lowest,
                                   highest, 64, 128, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult wide(CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle)
{
    static const cuuint64_t size[COLUMNS] = {64, 32, 32, 8}, strides[COLUMNS - 1] = {128, 4096, 131072};
    static const cuuint32_t steps[COLUMNS] = {1, 1, 1, 1};
    return cuTensorMapEncodeIm2colWide(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, COLUMNS, (void *)memory, size, strides, -1, 1,
                                       32, 128, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, mode, swizzle,
                                       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main(void)
{
    CUtensorMap first;
    CUdeviceptr other;
    int supported;
    start_cuda();
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
    REQUIRE(supported == 1);
    CUfunction kernel = load_kernel("reads_map_5us");
    CUstream stream = new_stream();
    CHECK(cuMemAlloc(&memory, 1 << 20));
    CHECK(cuMemAlloc(&other, 1 << 20));
    CHECK(encode(right()));
    first = map;
    CHECK(cuTensorMapReplaceAddress(&map, (void *)other));
    REQUIRE(memcmp(&first, &map, sizeof map) != 0);
    REQUIRE(cuTensorMapReplaceAddress(&map, (void *)(other + 8)) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuTensorMapReplaceAddress(NULL, (void *)other) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuTensorMapReplaceAddress(&map, (void *)memory));
    REQUIRE(memcmp(&first, &map, sizeof map) == 0);
    refused();
    CHECK(columns(-1));
    REQUIRE(columns(-129) == CUDA_ERROR_INVALID_VALUE);
    CHECK(wide(CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_64B));
    REQUIRE(wide(CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_32B) == CUDA_ERROR_INVALID_VALUE);
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree(memory));
    printf("{\"program\":\"tensor_maps\",\"launches\":1}\n");
    return 0;
}
