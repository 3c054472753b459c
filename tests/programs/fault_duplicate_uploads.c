// 30 steps of a kernel of 2 ms that reads a table of 1 MiB. The fault: the table is copied to the GPU in each step, though
// it does not change. The twin copies it once.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 30, BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_2ms");
    CUdeviceptr table = device_memory(BYTES);
    void *host = pinned_memory(BYTES);
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty || step == 0)
            CHECK(cuMemcpyHtoDAsync(table, host, BYTES, stream)); // finding: duplicate-uploads
        launch(kernel, stream);
    }
    return end_loop();
}
