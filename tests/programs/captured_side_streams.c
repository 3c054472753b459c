// Captures a graph on one stream and 16 more, which do nothing else, as cuBLAS's or PyTorch's are in CUDA graphs. Then launches
// kernels on the first stream, and the graph now and then. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { SIDES = 16, LAUNCHES = 20000 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("step_20us");
    CUstream stream = new_stream(), sides[SIDES];
    CUevent fork, joins[SIDES];
    CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    for (int n = 0; n < SIDES; n++) {
        sides[n] = new_stream();
        CHECK(cuEventCreate(&joins[n], CU_EVENT_DISABLE_TIMING));
    }
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(kernel, stream);
    CHECK(cuEventRecord(fork, stream));
    for (int n = 0; n < SIDES; n++) {
        CHECK(cuStreamWaitEvent(sides[n], fork, 0));
        launch(kernel, sides[n]);
        CHECK(cuEventRecord(joins[n], sides[n]));
        CHECK(cuStreamWaitEvent(stream, joins[n], 0));
    }
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int done = 1; done <= LAUNCHES; done++) {
        launch(kernel, stream);
        if (done % 100 == 0)
            CHECK(cuGraphLaunch(executable, stream));
        if (done % 10 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"captured_side_streams\",\"launches\":%d}\n", LAUNCHES);
    return 0;
}
