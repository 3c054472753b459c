// 60 steps of 10 kernels of 200 us, after which the host asks every 20 us whether they are done, or sleeps for SLEEP_US between two
// queries if that is set, and then computes for 1 ms. The fault: it does so in each step, and not in every 30th.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 60, LAUNCHES = 10, RARELY = 30, BETWEEN_US = 20, HOST_US = 1000 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_200us");
    const char *sleep_us = getenv("SLEEP_US");
    CUevent done;
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        CHECK(cuEventRecord(done, stream));
        if (is_faulty || step % RARELY == 0)
            while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) // finding: sync-per-step
                sleep_us ? pause_us((unsigned)atoi(sleep_us)) : compute_us(BETWEEN_US);
        compute_us(HOST_US);
    }
    return end_loop();
}
