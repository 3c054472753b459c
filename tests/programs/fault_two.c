// 100 steps of a kernel of 1 ms, after which the host does something else for HOST_US. Two faults: each fifth kernel takes
// LONG_US, and (SYNC is 1) the host waits for the whole GPU in each step. Arguments: SYNC LONG_US HOST_US.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 100, EACH = 5, USUAL_NS = 1000000 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 4);
    bool waits = atoi(argv[1]);
    uint64_t longer = strtoull(argv[2], NULL, 10) * 1000;
    unsigned host_us = (unsigned)atoi(argv[3]);
    begin(2, (char *[]){argv[0], "faulty"}, "first_1us");
    kernel = load_kernel("gather_argns");
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        uint64_t length = step % EACH == 0 ? longer : USUAL_NS;
        void *arguments[] = {&length};
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        if (waits)
            CHECK(cuCtxSynchronize());
        compute_us(host_us);
    }
    return end_loop();
}
