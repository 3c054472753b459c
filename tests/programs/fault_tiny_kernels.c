// 40 steps of 100 kernels that are shorter than a launch takes the host. The fault: each is launched by itself and not all
// as one graph.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, LAUNCHES = 100 };

static void step(void)
{
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernel, stream);
}

int main(int argc, char **argv)
{
    begin(argc, argv, "tiny_5us");
    CUgraph graph;
    CUgraphExec runnable;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    step();
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&runnable, graph, 0));
    begin_loop();
    for (int n = 0; n < STEPS; n++) {
        if (is_faulty)
            step();
        else
            CHECK(cuGraphLaunch(runnable, stream));
    }
    return end_loop();
}
