// 100 steps of 10 kernels, after which the host does something else for 1 ms. The fault: before that it waits for the whole
// GPU.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 100, LAUNCHES = 10, HOST_US = 1000 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        if (is_faulty)
            CHECK(cuCtxSynchronize()); // finding: device-wide-sync
        compute_us(HOST_US);
    }
    return end_loop();
}
