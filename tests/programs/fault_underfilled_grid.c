// 40 steps of a kernel of 2 ms. The fault: it has four blocks. The twin has as many as the simulated GPU holds.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, HELD = 264, FEW = 4, THREADS = 1024 };

int main(int argc, char **argv)
{
    begin(argc, argv, "reduce_2ms");
    begin_loop();
    for (int step = 0; step < STEPS; step++)
        launch_grid(kernel, is_faulty ? FEW : HELD, THREADS, stream);
    return end_loop();
}
