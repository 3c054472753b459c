// Uses two GPUs at the same time: each has a thread with the GPU's primary context, and copies, memsets and a kernel of
// its own. Prints the launches and copies.
// link: -l:libcuda.so.1
#include "driver.h"

enum { DEVICES = 2, ROUNDS = 100, BYTES = 256 << 10 };

static const char *const NAMES[DEVICES] = {"first_7us", "second_13us"};
static const int LAUNCHES[DEVICES] = {20, 30};

static void *use_device(void *index)
{
    int device = (int)(intptr_t)index;
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CUfunction kernel = load_kernel(NAMES[device]);
    CUstream stream = new_stream();
    CUdeviceptr block;
    void *host;
    CHECK(cuMemAlloc(&block, BYTES));
    CHECK(cuMemHostAlloc(&host, BYTES, 0));
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuMemcpyHtoDAsync(block, host, BYTES, stream));
        for (int launched = 0; launched < LAUNCHES[device]; launched++)
            launch(kernel, stream);
        CHECK(cuMemcpyDtoHAsync(host, block, BYTES, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemFree(block));
    CHECK(cuStreamDestroy(stream));
    return NULL;
}

int main(void)
{
    int count;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    REQUIRE(count == DEVICES);
    run_threads(DEVICES, use_device);
    printf("{\"program\":\"two_devices\",\"launches\":%d,\"copies_each_way\":%d,\"bytes_each_way\":%d,\"kernels\":{",
           ROUNDS * (LAUNCHES[0] + LAUNCHES[1]), DEVICES * ROUNDS, DEVICES * ROUNDS * BYTES);
    for (int device = 0; device < DEVICES; device++)
        printf("%s\"%s\":%d", device ? "," : "", NAMES[device], ROUNDS * LAUNCHES[device]);
    printf("}}\n");
    return 0;
}
