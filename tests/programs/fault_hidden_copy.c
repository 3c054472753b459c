// 40 steps of a matrix product of 2 ms. The fault: a copy inside the GPU before each, as of a bias to the output.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    begin(argc, argv, "ampere_sgemm_128x64_nn_2ms");
    CUdeviceptr bias = device_memory(BYTES), output = device_memory(BYTES);
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (is_faulty)
            CHECK(cuMemcpyDtoDAsync(output, bias, BYTES, stream));
        launch(kernel, stream);
    }
    return end_loop();
}
