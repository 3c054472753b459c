// 60 steps of 10 kernels of 200 us each. The fault: a compiler takes 20 ms of the host's time before each step, whose result is
// loaded, as if each step had a shape of its own. The simulated GPU holds as many blocks as each kernel has.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, LAUNCHES = 10, COMPILE_US = 20000, HELD = 264, THREADS = 1024 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty) {
            pause_us(COMPILE_US);
            kernel = load_kernel("step_200us");
        }
        for (int n = 0; n < LAUNCHES; n++)
            launch_grid(kernel, HELD, THREADS, stream);
    }
    return end_loop();
}
