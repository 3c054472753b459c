// A GPU-bound program: the host launches kernels of 50 and 20 us alternately, as fast as it can, so that the launch
// queue is full nearly all the time. Prints the number of launches, and how long they took.
//
//   gpu_bound one|legacy|two [LAUNCHES [SYNC_EVERY]]     one stream of its own, the legacy default stream, two streams
// link: -l:libcuda.so.1
#include "driver.h"

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "one";
    int launches = argc > 2 ? atoi(argv[2]) : 6000, sync_every = argc > 3 ? atoi(argv[3]) : 0;
    start_cuda();
    CUfunction kernels[] = {load_kernel("bound_50us"), load_kernel("bound_20us")};
    bool is_legacy = strcmp(mode, "legacy") == 0, are_two = strcmp(mode, "two") == 0;
    CUstream streams[2] = {NULL, NULL};
    if (!is_legacy)
        for (int i = 0; i < 2; i++)
            streams[i] = new_stream();
    // One launch of each before, so that loading them takes no time later.
    for (int i = 0; i < 2; i++)
        launch(kernels[i], streams[0]);
    CHECK(cuCtxSynchronize());
    uint64_t began = now_ns();
    for (int n = 0; n < launches; n++) {
        launch(kernels[n % 2], streams[are_two ? n / 2 % 2 : 0]);
        if (sync_every != 0 && (n + 1) % sync_every == 0)
            CHECK(cuCtxSynchronize());
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"gpu_bound\",\"launches\":%d,\"took_ns\":%llu}\n", launches + 2,
           (unsigned long long)(now_ns() - began));
    return 0;
}
