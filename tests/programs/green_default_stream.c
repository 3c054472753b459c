// Launches programmatically on the default stream of a green context, and waits for the primary context before it waits for the green
// one: the two have a default stream each, under the same handle. Prints the launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 5, LAUNCHES = 5 };

int main(void)
{
    start_cuda();
    CUcontext primary, inside;
    CHECK(cuCtxGetCurrent(&primary));
    CUfunction kernel = load_kernel("green_50us");
    CUdevResource all, half;
    CUdevResourceDesc descriptor;
    CUgreenCtx green;
    unsigned count = 1;
    CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(&half, &count, &all, NULL, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&descriptor, &half, 1));
    CHECK(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&inside, green));
    launch(kernel, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(inside));
    launch(kernel, NULL);
    CHECK(cuCtxSynchronize());
    for (int round = 0; round < ROUNDS; round++) {
        for (int launched = 0; launched < LAUNCHES; launched++)
            launch_behind(kernel, NULL);
        CHECK(cuCtxSetCurrent(primary));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxSetCurrent(inside));
        CHECK(cuCtxSynchronize());
    }
    int launches = 2 + ROUNDS * LAUNCHES;
    printf("{\"program\":\"green_default_stream\",\"launches\":%d,\"kernels\":{\"green_50us\":%d}}\n", launches, launches);
    return 0;
}
