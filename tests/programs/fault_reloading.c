// 60 steps of 10 kernels of 200 us each, and a wait. The fault: each step loads its module again, so that its first launch loads the
// kernel's code. The GPU would be idle for that without the wait, too. The simulated GPU holds as many blocks as each kernel has.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, LAUNCHES = 10, HELD = 264, THREADS = 1024 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty)
            kernel = load_kernel("step_200us");
        for (int n = 0; n < LAUNCHES; n++)
            launch_grid(kernel, HELD, THREADS, stream);
        CHECK(cuStreamSynchronize(stream));
    }
    return end_loop();
}
