// For MS milliseconds (first argument) launches short kernels, 30 in a row, and then computes for some time outside CUDA: so
// the GPU is idle in launches, and outside. Prints the ns that the host spent on either, and in other calls.
// link: -l:libcuda.so.1
#include "driver.h"

enum { LAUNCHES = 30, OUTSIDE_US = 300 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    uint64_t end = now_ns() + (uint64_t)atoi(argv[1]) * 1000000;
    start_cuda();
    CUfunction kernel = load_kernel("step_5us");
    CUstream stream = new_stream();
    uint64_t launching = 0, outside = 0, steps = 0;
    for (uint64_t now = now_ns(), then; now < end; steps++) {
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        then = now_ns();
        launching += then - now;
        do
            now = now_ns();
        while (now - then < OUTSIDE_US * 1000);
        outside += now - then;
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"paused_causes\",\"launching_ns\":%" PRIu64 ",\"outside_ns\":%" PRIu64 ",\"steps\":%" PRIu64 "}\n",
           launching, outside, steps);
    return 0;
}
