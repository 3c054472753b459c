// Divides a device in two. While a kernel of 20 ms runs on one half, the host launches five of 100 us on the other half and waits for
// that half as a whole, ten times.
// link: -l:libcuda.so.1
#include "driver.h"

enum { HALVES = 2, ROUNDS = 10, LAUNCHES = 5 };

int main(void)
{
    start_cuda();
    CUdevResource all, halves[HALVES];
    unsigned count = HALVES;
    CUgreenCtx greens[HALVES];
    CUcontext contexts[HALVES];
    CUstream streams[HALVES];
    CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(halves, &count, &all, NULL, 0, 16));
    CUfunction short_kernel = load_kernel("short_100us"), long_kernel = load_kernel("long_20ms");
    for (int half = 0; half < HALVES; half++) {
        CUdevResourceDesc descriptor;
        CHECK(cuDevResourceGenerateDesc(&descriptor, &halves[half], 1));
        CHECK(cuGreenCtxCreate(&greens[half], descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        CHECK(cuCtxFromGreenCtx(&contexts[half], greens[half]));
        CHECK(cuGreenCtxStreamCreate(&streams[half], greens[half], CU_STREAM_NON_BLOCKING, 0));
    }
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuCtxSetCurrent(contexts[1]));
        launch(long_kernel, streams[1]);
        CHECK(cuCtxSetCurrent(contexts[0]));
        for (int n = 0; n < LAUNCHES; n++)
            launch(short_kernel, streams[0]);
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxSetCurrent(contexts[1]));
        CHECK(cuStreamSynchronize(streams[1]));
    }
    printf("{\"program\":\"green_waits\",\"launches\":%d}\n", ROUNDS * (1 + LAUNCHES));
    return 0;
}
