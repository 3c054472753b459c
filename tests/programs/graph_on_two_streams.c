// Launches one executable graph on two streams by turns: each launch waits for the one before it. It waits for both streams after
// every eight launches, and then launches the graph on the second stream once more. Prints what its launches must have run.
// link: -l:libcuda.so.1
#include "graphs.h"

int main(void)
{
    enum { ROUNDS = 40, LAUNCHES = 8, KERNELS_OF_GRAPH = 5 };
    start_graphs();
    CUstream streams[] = {stream, new_stream()};
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuGraphCreate(&graph, 0));
    CUgraphNode last = add_kernel(graph, 4, NULL, 0);
    for (int index = 1; index < KERNELS_OF_GRAPH; index++)
        last = add_kernel(graph, 4, &last, 1);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int round = 0; round < ROUNDS; round++) {
        for (int launched = 0; launched < LAUNCHES; launched++)
            CHECK(cuGraphLaunch(executable, streams[launched % 2]));
        CHECK(cuStreamSynchronize(streams[0]));
        CHECK(cuStreamSynchronize(streams[1]));
        CHECK(cuGraphLaunch(executable, streams[1]));
        CHECK(cuStreamSynchronize(streams[1]));
    }
    graph_launches = ROUNDS * (LAUNCHES + 1);
    ran.kernels[4] = graph_launches * KERNELS_OF_GRAPH;
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
    print_ran("graph_on_two_streams");
    return 0;
}
