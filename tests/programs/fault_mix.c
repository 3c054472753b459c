// 60 steps of COPIES copies of 4 KiB and a kernel of 1 ms, after which the host does something else for HOST_US. Three
// faults: there is more than one copy, each fifth kernel takes LONG_US, and (SYNC is 1) the host waits for the whole GPU in
// each step. Arguments: SYNC LONG_US HOST_US COPIES.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, EACH = 5, USUAL_NS = 1000000, BYTES = 4096 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 5);
    bool waits = atoi(argv[1]);
    uint64_t longer = strtoull(argv[2], NULL, 10) * 1000;
    unsigned host_us = (unsigned)atoi(argv[3]);
    size_t copies = strtoull(argv[4], NULL, 10);
    begin(2, (char *[]){argv[0], "faulty"}, "first_1us");
    kernel = load_kernel("gather_argns");
    CUdeviceptr input = device_memory(copies * BYTES);
    char *host = pinned_memory(STEPS * copies * BYTES);
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        uint64_t length = step % EACH == 0 ? longer : USUAL_NS;
        void *arguments[] = {&length};
        for (size_t n = 0; n < copies; n++)
            CHECK(cuMemcpyHtoDAsync(input + n * BYTES, host + (step * copies + n) * BYTES, BYTES, stream));
        CHECK(cuLaunchKernel(kernel, 264, 1, 1, 1024, 1, 1, 0, stream, arguments, NULL));
        if (waits)
            CHECK(cuCtxSynchronize());
        compute_us(host_us);
    }
    return end_loop();
}
