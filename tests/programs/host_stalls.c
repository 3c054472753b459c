// A training loop that never waits for the GPU and whose input comes late: STEPS steps (first argument, default 60) of
// 400 launches of 20 us, which are 8 ms of work that the host submits in less, then 25 ms in which the host does
// something else. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { LAUNCHES = 400, STALL_US = 25000 };

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    start_cuda();
    CUfunction kernel = load_kernel("step_20us");
    CUstream stream = new_stream();
    launch(kernel, stream);
    CHECK(cuCtxSynchronize());
    for (int step = 0; step < steps; step++) {
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        pause_us(STALL_US);
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"host_stalls\",\"launches\":%d,\"steps\":%d}\n", steps * LAUNCHES + 1, steps);
    return 0;
}
