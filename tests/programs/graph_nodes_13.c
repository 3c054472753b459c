// Builds graphs node by node (graph_nodes.h) with the signatures of CUDA 13's runtime, where edges have data.
// headers: cuda-13
// link: -l:libcudart.so.13
#define ADD_NODE(node, graph, before, count, parameters) cudaGraphAddNode(node, graph, before, NULL, count, parameters)
#define EDGES(graph, from, to, count) cudaGraphGetEdges(graph, from, to, NULL, count)
#define BEFORE(node, nodes, count) cudaGraphNodeGetDependencies(node, nodes, NULL, count)
#define BEHIND(node, nodes, count) cudaGraphNodeGetDependentNodes(node, nodes, NULL, count)
#define CONNECT(graph, from, to, count) cudaGraphAddDependencies(graph, from, to, NULL, count)
#define DISCONNECT(graph, from, to, count) cudaGraphRemoveDependencies(graph, from, to, NULL, count)

#include "graph_nodes.h"

int main(int argc, char **argv)
{
    (void)argv;
    return run_nodes("graph_nodes_13", argc > 1);
}
