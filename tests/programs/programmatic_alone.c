// Launches a kernel, and 100 us later, when it is over, another one programmatically, as XLA launches all of its kernels; then it
// does nothing for 10 ms. The poller has not read by then that the first one is over. Prints the number of rounds.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 40 };

int main(void)
{
    start_cuda();
    CUfunction first = load_kernel("first_5us"), behind = load_kernel("behind_5us");
    CUstream stream = new_stream(), other = new_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        launch(first, stream);
        // Something else on the stream, so that the first kernel's end event is not the other one's start event.
        CHECK(cuEventRecord(event, other));
        CHECK(cuStreamWaitEvent(stream, event, 0));
        pause_us(100);
        launch_behind(behind, stream);
        pause_us(10000);
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"programmatic_alone\",\"rounds\":%d}\n", ROUNDS);
    return 0;
}
