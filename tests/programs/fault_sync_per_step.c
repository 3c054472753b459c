// 100 steps of 10 kernels, after which the host reads 4 bytes and does something else for 1 ms. The fault: it reads them in
// every step, as loss.item() does, and not in every 50th.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 100, LAUNCHES = 10, RARELY = 50, HOST_US = 1000 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    CUdeviceptr loss = device_memory(4);
    float value;
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        if (is_faulty || step % RARELY == 0) {
            CHECK(cuMemcpyDtoHAsync(&value, loss, sizeof value, stream)); // finding: sync-per-step
            CHECK(cuStreamSynchronize(stream));
        }
        compute_us(HOST_US);
    }
    return end_loop();
}
