// 60 steps of 10 kernels of 200 us each, and a function on the host that takes 1.5 ms for each step. The fault: it is enqueued
// on the stream of the kernels, which wait for it, and not on one of its own. The host is two steps ahead of the GPU.
// The simulated GPU holds as many blocks as each kernel has.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, LAUNCHES = 10, FUNCTION_US = 1500, HELD = 264, THREADS = 1024, AHEAD = 2 };

static void on_host(void *unused)
{
    (void)unused;
    pause_us(FUNCTION_US);
}

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    CUstream of_function = is_faulty ? stream : new_stream();
    CUevent done[AHEAD];
    for (int n = 0; n < AHEAD; n++)
        CHECK(cuEventCreate(&done[n], CU_EVENT_DISABLE_TIMING));
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (step >= AHEAD)
            CHECK(cuEventSynchronize(done[step % AHEAD]));
        for (int n = 0; n < LAUNCHES; n++)
            launch_grid(kernel, HELD, THREADS, stream);
        CHECK(cuEventRecord(done[step % AHEAD], stream));
        if (!is_faulty)
            CHECK(cuStreamWaitEvent(of_function, done[step % AHEAD], 0));
        CHECK(cuLaunchHostFunc(of_function, on_host, NULL)); // finding: host-function
    }
    return end_loop();
}
