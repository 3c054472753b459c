// Works for some seconds as a training job does: the host is ahead of the GPU on two streams, memory is kept and memory comes
// and goes, and a range of NVTX lasts the whole time. Prints how much it kept and how often it called.
//
//   windows SECONDS
// link: -l:libcuda.so.1
#include "driver.h"

#include <nvtx3/nvToolsExt.h>

enum { A_STEP = 50, STEPS_A_WAIT = 4, KEPT = 1 << 16, PASSING = 1 << 20, COPIED = 4096 };

static double seconds_since(struct timespec began)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    double seconds = atof(argv[1]);
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    start_cuda();
    CUfunction kernels[] = {load_kernel("windows_20us"), load_kernel("windows_50us")};
    CUstream streams[] = {new_stream(), new_stream()};
    CUdeviceptr kept, target;
    CHECK(cuMemAlloc(&target, COPIED));
    static char host[COPIED];
    uint64_t steps = 0, launches = 0, blocks = 0;
    nvtxRangePushA("whole job");
    while (seconds_since(began) < seconds) {
        nvtxRangePushA("step");
        CUdeviceptr passing;
        CHECK(cuMemAlloc(&passing, PASSING));
        CHECK(cuMemcpyHtoDAsync(target, host, sizeof host, streams[0]));
        for (int at = 0; at < A_STEP; at++, launches++)
            launch(kernels[at % 2], streams[at % 2]);
        if (steps % 8 == 0) {
            CHECK(cuMemAlloc(&kept, KEPT));
            blocks++;
        }
        if (++steps % STEPS_A_WAIT == 0)
            CHECK(cuCtxSynchronize());
        CHECK(cuMemFree(passing));
        nvtxRangePop();
    }
    CHECK(cuCtxSynchronize());
    nvtxRangePop();
    printf("{\"program\":\"windows\",\"steps\":%" PRIu64 ",\"launches\":%" PRIu64 ",\"kept_bytes\":%" PRIu64 "}\n", steps,
           launches, blocks * KEPT + COPIED);
    return 0;
}
