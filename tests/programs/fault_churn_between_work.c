// A loop of three parts, each of which computes before its launch and has a line of its own. faulty: each step also allocates a block,
// and frees it behind the last part, which waits for the GPU; fixed: the block is allocated once. Prints how long the loop took.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, WORK_US = 1650, BYTES = 4 << 20 };

#define PART(name)                                                                                                     \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        uint64_t nothing = 0;                                                                                          \
        void *arguments[] = {&nothing};                                                                                \
        compute_us(WORK_US);                                                                                           \
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));                                  \
    }

PART(read_input)
PART(compute)
PART(update)

int main(int argc, char **argv)
{
    begin(argc, argv, "step_1500us");
    CUdeviceptr block = device_memory(BYTES);
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty)
            CHECK(cuMemAlloc(&block, BYTES));
        read_input();
        compute();
        update();
        if (is_faulty)
            CHECK(cuMemFree(block));
    }
    return end_loop();
}
