// 100 steps that copy 256 KiB of page-locked memory, do something else for 1 ms, and run a kernel of 2 ms. The fault: the
// host waits for each copy.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 100, BYTES = 256 << 10, HOST_US = 1000 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_2ms");
    CUdeviceptr input = device_memory(BYTES);
    void *host = pinned_memory(BYTES);
    stream = CU_STREAM_LEGACY;
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty)
            CHECK(cuMemcpyHtoD(input, host, BYTES)); // finding: synchronous-copies
        else
            CHECK(cuMemcpyHtoDAsync(input, host, BYTES, stream));
        compute_us(HOST_US);
        launch(kernel, stream);
    }
    return end_loop();
}
