// Holds memory on two GPUs of 80 GiB. faulty: 10 GiB on the first and 70 GiB on the second, which is then asked for 20 GiB
// more and has no room for them; fixed: 40 GiB on each, and 20 GiB more. elsewhere: as
// faulty, with the second GPU's memory created and mapped while the first one's context is current.
// link: -l:libcuda.so.1
#include "driver.h"

enum { DEVICES = 2 };

static size_t gib(size_t count)
{
    return count << 30;
}

// Holds memory of a GPU, whatever context is current.
static CUdeviceptr create(int device, size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    CHECK(cuMemMap(at, bytes, 0, handle, 0));
    return at;
}

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool fixed = strcmp(arguments[1], "fixed") == 0, elsewhere = strcmp(arguments[1], "elsewhere") == 0;
    size_t held[DEVICES] = {fixed ? 40 : 10, fixed ? 40 : 70};
    CUcontext contexts[DEVICES];
    CUdeviceptr block, more;
    start_cuda();
    for (int device = 0; device < DEVICES; device++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
        if (!elsewhere)
            CHECK(cuMemAlloc(&block, gib(held[device])));
        CUstream stream = new_stream();
        launch(load_kernel("step_500us"), stream);
        CHECK(cuStreamSynchronize(stream));
    }
    if (elsewhere) {
        CHECK(cuCtxSetCurrent(contexts[0]));
        for (int device = 0; device < DEVICES; device++)
            create(device, gib(held[device]));
        CHECK(cuCtxSetCurrent(contexts[1]));
    }
    CUresult result = cuMemAlloc(&more, gib(20));
    REQUIRE(result == (fixed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY));
    return 0;
}
