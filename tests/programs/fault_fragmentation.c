// Maps 8 GiB of physical memory. faulty: it has created 24 GiB; fixed: 8 GiB.
// link: -l:libcuda.so.1
#include "driver.h"

enum { MAPPED = 4, CREATED = 12 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    int created = strcmp(arguments[1], "faulty") == 0 ? CREATED : MAPPED;
    size_t bytes = (size_t)2 << 30;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handles[CREATED];
    CUdeviceptr range;
    start_cuda();
    CUfunction kernel = load_kernel("step_500us");
    CUstream stream = new_stream();
    CHECK(cuMemAddressReserve(&range, MAPPED * bytes, 0, 0, 0));
    for (int at = 0; at < created; at++)
        CHECK(cuMemCreate(&handles[at], bytes, &properties, 0)); // finding: fragmentation
    for (int at = 0; at < MAPPED; at++)
        CHECK(cuMemMap(range + at * bytes, bytes, 0, handles[at], 0));
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemUnmap(range, MAPPED * bytes));
    for (int at = 0; at < created; at++)
        CHECK(cuMemRelease(handles[at]));
    CHECK(cuMemAddressFree(range, MAPPED * bytes));
    return 0;
}
