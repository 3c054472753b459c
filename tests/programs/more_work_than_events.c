// Creates more unfinished work than a tracer has events for: STREAMS streams wait for one word in memory, with EACH
// launches on each, and when all are submitted the program writes the word. Then launches some more once all have
// drained. Prints the launches. An alarm ends it after 60 s with code 98.
// link: -l:libcuda.so.1
#include "gate.h"

enum { STREAMS = 400, EACH = 100, AFTERWARDS = 500 };

int main(void)
{
    end_if_stuck(60);
    start_cuda();
    CUfunction gated = load_kernel("gated_1us"), afterwards = load_kernel("afterwards_5us");
    CUstream streams[STREAMS];
    struct gate gate = new_gate();
    for (int index = 0; index < STREAMS; index++) {
        streams[index] = new_stream();
        stand_behind(gate, streams[index]);
    }
    for (int launched = 0; launched < EACH; launched++)
        for (int index = 0; index < STREAMS; index++)
            launch(gated, streams[index]);
    REQUIRE(cuStreamQuery(streams[STREAMS - 1]) == CUDA_ERROR_NOT_READY);
    open_gate(gate);
    CHECK(cuCtxSynchronize());
    pause_us(300000);
    for (int launched = 0; launched < AFTERWARDS; launched++) {
        launch(afterwards, streams[launched % STREAMS]);
        CHECK(cuStreamSynchronize(streams[launched % STREAMS]));
    }
    printf("{\"program\":\"more_work_than_events\",\"launches\":%d,\"kernels\":{\"afterwards_5us\":%d,\"gated_1us\":%d}}\n",
           STREAMS * EACH + AFTERWARDS, AFTERWARDS, STREAMS * EACH);
    return 0;
}
