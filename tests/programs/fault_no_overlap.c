// 40 steps that copy 1 MiB of a data set in page-locked memory and run a kernel of 3 ms on it. The fault: one stream does both. The twin
// copies the next step's input on another stream.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, BYTES = 1 << 20, BUFFERS = 2 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_3ms");
    CUstream copying = is_faulty ? stream : new_stream();
    CUdeviceptr input[BUFFERS];
    CUevent copied[BUFFERS], computed[BUFFERS];
    char *host = pinned_memory((size_t)STEPS * BYTES);
    for (int n = 0; n < BUFFERS; n++) {
        input[n] = device_memory(BYTES);
        CHECK(cuEventCreate(&copied[n], CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventCreate(&computed[n], CU_EVENT_DISABLE_TIMING));
    }
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        int n = step % BUFFERS;
        if (!is_faulty && step >= BUFFERS)
            CHECK(cuStreamWaitEvent(copying, computed[n], 0));
        CHECK(cuMemcpyHtoDAsync(input[n], host + (size_t)step * BYTES, BYTES, copying)); // finding: no-overlap
        if (!is_faulty) {
            CHECK(cuEventRecord(copied[n], copying));
            CHECK(cuStreamWaitEvent(stream, copied[n], 0));
        }
        launch(kernel, stream);
        if (!is_faulty)
            CHECK(cuEventRecord(computed[n], stream));
    }
    return end_loop();
}
