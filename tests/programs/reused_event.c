// Records an event after many launches that wait for the program, and destroys it. Its handle is reused for another
// event, which was never recorded and so counts as complete. The stream is as deep as before for launches from then on.
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "gate.h"

enum { DEEP = 300, LATE = 100 };

int main(void)
{
    end_if_stuck(60);
    start_cuda();
    CUfunction kernel = load_kernel("deep_5us"), late = load_kernel("late_5us");
    CUstream stream = new_stream();
    struct gate gate = new_gate();
    CUevent event, other;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    stand_behind(gate, stream);
    for (int n = 0; n < DEEP; n++)
        launch(kernel, stream);
    // An event that somebody else makes at the same time may get the handle instead.
    for (;;) {
        CHECK(cuEventRecord(event, stream));
        CHECK(cuEventDestroy(event));
        CHECK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
        if (other == event)
            break;
        event = other;
    }
    CHECK(cuEventQuery(other));
    for (int n = 0; n < LATE; n++)
        launch(late, stream);
    open_gate(gate);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"reused_event\",\"launches\":%d}\n", DEEP + LATE);
    return 0;
}
