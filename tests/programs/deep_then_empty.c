// Keeps a stream as deep as its launch queue allows, then waits for it in a way that names no stream: "context" waits
// for the context, "poll" queries an event until it is ready. Then uses the stream normally. Prints the number of
// launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { DEEP = 3000, AFTER = 400 };

int main(int argc, char **argv)
{
    bool poll = argc > 1 && strcmp(argv[1], "poll") == 0;
    start_cuda();
    CUfunction kernel = load_kernel("deep_20us"), shallow = load_kernel("shallow_5us");
    CUstream stream = new_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int n = 0; n < DEEP; n++)
        launch(kernel, stream);
    CHECK(cuEventRecord(event, stream));
    if (!poll)
        CHECK(cuCtxSynchronize());
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        pause_us(100);
    for (int n = 0; n < AFTER; n++) {
        launch(shallow, stream);
        pause_us(10);
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"deep_then_empty\",\"launches\":%d}\n", DEEP + AFTER);
    return 0;
}
