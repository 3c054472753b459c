// Builds graphs node by node (graph_nodes.h) with the signatures of CUDA 12's runtime.
// link: -l:libcudart.so.12
#define ADD_NODE(node, graph, before, count, parameters) cudaGraphAddNode(node, graph, before, count, parameters)
#define EDGES(graph, from, to, count) cudaGraphGetEdges(graph, from, to, count)
#define BEFORE(node, nodes, count) cudaGraphNodeGetDependencies(node, nodes, count)
#define BEHIND(node, nodes, count) cudaGraphNodeGetDependentNodes(node, nodes, count)
#define CONNECT(graph, from, to, count) cudaGraphAddDependencies(graph, from, to, count)
#define DISCONNECT(graph, from, to, count) cudaGraphRemoveDependencies(graph, from, to, count)

#include "graph_nodes.h"

int main(int argc, char **argv)
{
    (void)argv;
    return run_nodes("graph_nodes_12", argc > 1);
}
