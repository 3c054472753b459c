// Instantiates a graph again and again, as a program does that captures one for each shape of its data: it launches each
// executable graph, waits for the launch, and destroys it. The argument is how many. Prints what its launches must have run.
// link: -l:libcuda.so.1
#include "graphs.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int graphs = atoi(argv[1]);
    start_graphs();
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_kernel(graph, 0, NULL, 0);
    add_kernel(graph, 3, &first, 1);
    for (int n = 0; n < graphs; n++) {
        CUgraphExec executable;
        CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuGraphExecDestroy(executable));
    }
    CHECK(cuGraphDestroy(graph));
    ran.kernels[0] = ran.kernels[3] = graphs;
    graph_launches = graphs;
    print_ran("many_graphs");
    return 0;
}
