// 40 steps of a kernel with blocks of 1024 threads, of which the simulated GPU holds 264, two on each multiprocessor. The
// fault: 290 blocks of 1 ms each, which take two waves. The twin divides the same work among ten full waves of blocks.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, HELD = 264, THREADS = 1024 };

int main(int argc, char **argv)
{
    begin(argc, argv, "first_1us");
    // The work is 290 ms of blocks: 290 / 264 ms if it is spread evenly.
    kernel = load_kernel(is_faulty ? "product_2ms" : "product_1098485ns");
    begin_loop();
    for (int step = 0; step < STEPS; step++)
        launch_grid(kernel, is_faulty ? 290 : 10 * HELD, THREADS, stream);
    return end_loop();
}
