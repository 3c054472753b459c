// 60 steps that copy 64 KiB of a data set and run a kernel. The fault: they copy 16 times 4 KiB.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, BYTES = 64 << 10, PIECES = 16 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_500us");
    CUdeviceptr input = device_memory(BYTES);
    char *host = pinned_memory(STEPS * BYTES);
    size_t piece = is_faulty ? BYTES / PIECES : BYTES;
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        for (size_t at = 0; at < BYTES; at += piece)
            CHECK(cuMemcpyHtoDAsync(input + at, host + step * BYTES + at, piece, stream)); // finding: small-copies
        launch(kernel, stream);
    }
    return end_loop();
}
