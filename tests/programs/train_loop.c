// A training loop: STEPS steps (first argument) of a kernel that takes FORWARD_NS (second argument) and four small ones.
// With PAUSE_US (third argument) above 0, each step is waited for, and then the host does something else for that long;
// with 0, all steps are launched ahead of the GPU. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { SMALL = 4 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 4);
    uint64_t forward_ns = strtoull(argv[2], NULL, 10);
    int steps = atoi(argv[1]), pause = atoi(argv[3]);
    void *arguments[] = {&forward_ns};
    start_cuda();
    CUfunction forward = load_kernel("forward_argns"), update = load_kernel("update_50us");
    CUstream stream = new_stream();
    for (int step = 0; step < steps; step++) {
        CHECK(cuLaunchKernel(forward, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        for (int n = 0; n < SMALL; n++)
            launch(update, stream);
        if (pause > 0) {
            CHECK(cuStreamSynchronize(stream));
            pause_us((unsigned)pause);
        }
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"train_loop\",\"launches\":%d,\"steps\":%d}\n", steps * (1 + SMALL), steps);
    return 0;
}
