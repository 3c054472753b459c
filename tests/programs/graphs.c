// Builds and changes graphs in every way: by hand, cloned, with child graphs two levels deep, captured, captured into a
// graph, launched inside a capture; with node parameters set, nodes disabled, child graphs replaced, and whole graphs
// updated, by every version of the functions. Prints what its launches must have run. Exits with 99 if a graph is not
// what the program made, or if the GPU's memory is not what its nodes wrote.
// link: -l:libcuda.so.1
#include "graphs.h"

// The older versions, which the header replaces by macros.
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
#undef cuGraphExecKernelNodeSetParams
CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *);

// copy → a → (b, c) → d → memset
struct diamond {
    CUgraph graph;
    CUgraphNode copy, a, b, c, d, set;
};

static const struct shape diamond_shape = {
    .kernels = {1, 1, 1, 1, 0}, .copies = 1, .copied = BYTES, .sets = 1, .set = BYTES};

static struct diamond diamond(int a, int b, int c, int d)
{
    struct diamond made;
    CUDA_MEMCPY3D copy = copy_parameters(BYTES);
    CUDA_MEMSET_NODE_PARAMS set = set_parameters(7, BYTES);
    CHECK(cuGraphCreate(&made.graph, 0));
    CHECK(cuGraphAddMemcpyNode(&made.copy, made.graph, NULL, 0, &copy, current()));
    made.a = add_kernel(made.graph, a, &made.copy, 1);
    made.b = add_kernel(made.graph, b, &made.a, 1);
    made.c = add_kernel(made.graph, c, &made.a, 1);
    made.d = add_kernel(made.graph, d, (CUgraphNode[]){made.b, made.c}, 2);
    CHECK(cuGraphAddMemsetNode(&made.set, made.graph, &made.d, 1, &set, current()));
    return made;
}

static void every_way_to_instantiate(void)
{
    struct diamond by_hand = diamond(0, 1, 2, 3);
    struct picture before = picture_of(by_hand.graph);
    CUgraphExec executable;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {0};
    for (int way = 0; way < 4; way++) {
        memset(host, way, BYTES);
        if (way == 0)
            CHECK(cuGraphInstantiate(&executable, by_hand.graph, NULL, NULL, 0));
        else if (way == 1)
            CHECK(cuGraphInstantiate_v2(&executable, by_hand.graph, NULL, NULL, 0));
        else if (way == 2)
            CHECK(cuGraphInstantiateWithFlags(&executable, by_hand.graph, 0));
        else
            CHECK(cuGraphInstantiateWithParams(&executable, by_hand.graph, &parameters));
        require_unchanged(by_hand.graph, before);
        CHECK(cuGraphUpload(executable, stream));
        run_graph(executable, 3, diamond_shape);
        require_bytes(7, BYTES);
        // The handle may be reused for the next one.
        CHECK(cuGraphExecDestroy(executable));
    }
    CHECK(cuGraphDestroy(by_hand.graph));
}

static void nodes_set_anew(void)
{
    struct diamond made = diamond(0, 1, 2, 3);
    CUgraphExec executable = instantiated(made.graph);
    struct shape shape = diamond_shape;
    CUDA_KERNEL_NODE_PARAMS e = kernel_parameters(4), b = kernel_parameters(1);
    CHECK(cuGraphExecKernelNodeSetParams_v2(executable, made.b, &e));
    shape.kernels[1]--, shape.kernels[4]++;
    run_graph(executable, 2, shape);
    CUDA_KERNEL_NODE_PARAMS_v1 old = {.func = functions[4], .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
                                      .blockDimY = 1, .blockDimZ = 1, .kernelParams = e.kernelParams};
    CHECK(cuGraphExecKernelNodeSetParams(executable, made.c, &old));
    shape.kernels[2]--, shape.kernels[4]++;
    run_graph(executable, 2, shape);
    CUDA_MEMCPY3D copy = copy_parameters(BYTES / 4);
    CUDA_MEMSET_NODE_PARAMS set = set_parameters(9, BYTES / 2);
    CHECK(cuGraphExecMemcpyNodeSetParams(executable, made.copy, &copy, current()));
    CHECK(cuGraphExecMemsetNodeSetParams(executable, made.set, &set, current()));
    shape.copied /= 4, shape.set /= 2;
    run_graph(executable, 2, shape);
    require_bytes(9, BYTES / 2);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&any.kernel, &b, sizeof b);
    CHECK(cuGraphExecNodeSetParams(executable, made.b, &any));
    shape.kernels[4]--, shape.kernels[1]++;
    any = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = copy_parameters(BYTES)}};
    CHECK(cuGraphExecNodeSetParams(executable, made.copy, &any));
    shape.copied *= 4;
    run_graph(executable, 2, shape);
    // A failed call changes nothing.
    REQUIRE(cuGraphExecKernelNodeSetParams_v2(executable, made.copy, &e) != CUDA_SUCCESS);
    CHECK(cuGraphNodeSetEnabled(executable, made.c, 0));
    CHECK(cuGraphNodeSetEnabled(executable, made.copy, 0));
    struct shape less = shape;
    less.kernels[4]--, less.copies = 0, less.copied = 0;
    run_graph(executable, 2, less);
    CHECK(cuGraphNodeSetEnabled(executable, made.c, 1));
    CHECK(cuGraphNodeSetEnabled(executable, made.copy, 1));
    run_graph(executable, 1, shape);
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(made.graph));
}

// Inner graphs are cloned into their nodes: b → c in a graph in a graph.
static void children_two_deep(void)
{
    CUgraph inner, middle, outer, clone;
    CUgraphNode child, first, within, kernels[2];
    size_t count = 2;
    CHECK(cuGraphCreate(&inner, 0));
    CHECK(cuGraphCreate(&middle, 0));
    CHECK(cuGraphCreate(&outer, 0));
    first = add_kernel(inner, 1, NULL, 0);
    add_kernel(inner, 2, &first, 1);
    first = add_kernel(middle, 3, NULL, 0);
    CHECK(cuGraphAddChildGraphNode(&within, middle, &first, 1, inner));
    first = add_kernel(outer, 0, NULL, 0);
    CHECK(cuGraphAddChildGraphNode(&child, outer, &first, 1, middle));
    add_kernel(outer, 0, &child, 1);
    struct shape shape = {.kernels = {2, 1, 1, 1, 0}};
    CUgraphExec executable = instantiated(outer);
    run_graph(executable, 3, shape);
    CHECK(cuGraphClone(&clone, outer));
    CUgraphExec cloned = instantiated(clone);
    run_graph(cloned, 2, shape);
    // Builds a graph like the child's, also two levels deep, with another kernel inside.
    CUDA_KERNEL_NODE_PARAMS e = kernel_parameters(4);
    CUgraph like, embedded;
    CHECK(cuGraphClone(&like, middle));
    CHECK(cuGraphNodeFindInClone(&within, within, like));
    CHECK(cuGraphChildGraphNodeGetGraph(within, &embedded));
    CHECK(cuGraphGetNodes(embedded, kernels, &count));
    REQUIRE(count == 2);
    CHECK(cuGraphKernelNodeSetParams(kernels[1], &e));
    struct picture before = picture_of(like);
    CHECK(cuGraphExecChildGraphNodeSetParams(executable, child, like));
    require_unchanged(like, before);
    shape.kernels[2]--, shape.kernels[4]++;
    run_graph(executable, 2, shape);
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphExecDestroy(cloned));
    CHECK(cuGraphDestroy(inner));
    CHECK(cuGraphDestroy(middle));
    CHECK(cuGraphDestroy(outer));
    CHECK(cuGraphDestroy(clone));
    CHECK(cuGraphDestroy(like));
}

static void whole_graphs_updated(void)
{
    struct diamond old = diamond(0, 1, 2, 3), new = diamond(4, 4, 4, 0), other = diamond(0, 0, 0, 0);
    add_kernel(other.graph, 4, &other.set, 1);
    CUgraphExec executable = instantiated(old.graph);
    run_graph(executable, 2, diamond_shape);
    CUgraphExecUpdateResultInfo info = {0};
    struct picture before = picture_of(new.graph), different = picture_of(other.graph);
    CHECK(cuGraphExecUpdate_v2(executable, new.graph, &info));
    REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    require_unchanged(new.graph, before);
    struct shape shape = diamond_shape;
    memcpy(shape.kernels, (int[KERNELS]){1, 0, 0, 0, 3}, sizeof shape.kernels);
    run_graph(executable, 2, shape);
    REQUIRE(cuGraphExecUpdate_v2(executable, other.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == NULL);
    require_unchanged(other.graph, different);
    run_graph(executable, 2, shape);
    // As many nodes, and one more edge: the node that did not fit is one that the program knows.
    struct diamond twisted = diamond(0, 1, 2, 3);
    CHECK(cuGraphAddDependencies(twisted.graph, &twisted.copy, &twisted.d, 1));
    different = picture_of(twisted.graph);
    REQUIRE(cuGraphExecUpdate_v2(executable, twisted.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    require_unchanged(twisted.graph, different);
    size_t at = 0;
    while (at < different.node_count && different.nodes[at] != info.errorNode)
        at++;
    REQUIRE(at < different.node_count);
    CHECK(cuGraphDestroy(twisted.graph));
    // A node of the original graph still identifies its place.
    CUDA_KERNEL_NODE_PARAMS c = kernel_parameters(2);
    CHECK(cuGraphExecKernelNodeSetParams_v2(executable, old.d, &c));
    shape.kernels[0]--, shape.kernels[2]++;
    run_graph(executable, 2, shape);
    CUgraphNode node;
    CUgraphExecUpdateResult result;
    CHECK(cuGraphExecUpdate(executable, old.graph, &node, &result));
    REQUIRE(result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run_graph(executable, 2, diamond_shape);
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(old.graph));
    CHECK(cuGraphDestroy(new.graph));
    CHECK(cuGraphDestroy(other.graph));
}

static void captured(void)
{
    CUgraph graph, outer;
    int version;
    memset(host, 3, BYTES);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(functions[0], stream);
    CHECK(cuMemcpyHtoDAsync(device, host, BYTES, stream));
    launch(functions[1], stream);
    launch(functions[0], stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    struct shape shape = {.kernels = {2, 1, 0, 0, 0}, .copies = 1, .copied = BYTES};
    CUgraphExec executable = instantiated(graph);
    run_graph(executable, 5, shape);
    require_bytes(3, BYTES);
    // A graph launch inside a capture becomes a child graph.
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuGraphLaunch(executable, stream));
    launch(functions[4], stream);
    CHECK(cuStreamEndCapture(stream, &outer));
    CUgraphExec nested;
    CHECK(cuGraphInstantiateWithFlags(&nested, outer, 0));
    struct shape larger = shape;
    larger.kernels[4] = 1;
    run_graph(nested, 2, larger);
    run_graph(executable, 2, shape);
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphExecDestroy(nested));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphDestroy(outer));
    CHECK(cuDriverGetVersion(&version));
    if (version < 12030)
        return;
    CHECK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_kernel(graph, 2, NULL, 0);
    CHECK(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch(functions[3], stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    executable = instantiated(graph);
    run_graph(executable, 2, (struct shape){.kernels = {0, 0, 1, 1, 0}});
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
}

// Adds an edge that lets the second kernel start before the first has ended: a tracer's event between them would undo
// it.
static void programmatic(void)
{
    CUgraph graph;
    CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CUgraphEdgeData kept[2];
    CUgraphNode from[2], to[2], first, second, third;
    size_t count = 2;
    CHECK(cuGraphCreate(&graph, 0));
    first = add_kernel(graph, 0, NULL, 0);
    second = add_kernel(graph, 1, NULL, 0);
    third = add_kernel(graph, 2, &second, 1);
    CHECK(cuGraphAddDependencies_v2(graph, &first, &second, &edge, 1));
    REQUIRE(cuGraphGetEdges(graph, from, to, &count) == CUDA_ERROR_LOSSY_QUERY);
    CUgraphExec executable;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphGetEdges_v2(graph, from, to, kept, &count));
    REQUIRE(count == 2 && to[0] == second && to[1] == third && memcmp(kept, &edge, sizeof edge) == 0 && kept[1].type == 0);
    run_graph(executable, 3, (struct shape){.kernels = {1, 1, 1, 0, 0}});
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
}

// a → if (b) → loop (c) → d: only the GPU knows how often b and c run.
static void conditional(void)
{
    CUgraph graph;
    CUgraphConditionalHandle condition;
    CUgraphNode last, branch, loop;
    CUgraphExec executable;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphConditionalHandleCreate(&condition, graph, current(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    last = add_kernel(graph, 0, NULL, 0);
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    parameters.conditional.handle = condition;
    parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
    parameters.conditional.size = 1;
    parameters.conditional.ctx = current();
    CHECK(cuGraphAddNode(&branch, graph, &last, 1, &parameters));
    add_kernel(parameters.conditional.phGraph_out[0], 1, NULL, 0);
    parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    CHECK(cuGraphAddNode(&loop, graph, &branch, 1, &parameters));
    add_kernel(parameters.conditional.phGraph_out[0], 2, NULL, 0);
    add_kernel(graph, 3, &loop, 1);
    executable = instantiated(graph);
    run_graph(executable, 4, (struct shape){.kernels = {1, 0, 0, 1, 0}});
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
}

// Builds ten thousand nodes in a row.
static void large(void)
{
    CUgraph graph;
    CUgraphNode last = NULL;
    CUgraphExec executable;
    CHECK(cuGraphCreate(&graph, 0));
    for (int index = 0; index < 10000; index++)
        last = add_kernel(graph, index % 2 ? 3 : 0, &last, index > 0);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    run_graph(executable, 2, (struct shape){.kernels = {5000, 0, 0, 5000, 0}});
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
}

// Launches three kernels whose durations change from launch to launch, without waiting for the launches.
static void queued(void)
{
    enum { NODES = 3, LAUNCHES = 200 };
    CUfunction as_told = load_kernel("graph_argns");
    CUgraph graph;
    CUgraphNode nodes[NODES];
    CUgraphExec executable;
    uint64_t ns = 1000;
    void *arguments[] = {&ns};
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_parameters(0);
    parameters.func = as_told, parameters.kernelParams = arguments;
    launch(as_told, stream);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphCreate(&graph, 0));
    for (int index = 0; index < NODES; index++)
        CHECK(cuGraphAddKernelNode(&nodes[index], graph, index ? &nodes[index - 1] : NULL, index > 0, &parameters));
    executable = instantiated(graph);
    for (int launched = 0; launched < LAUNCHES; launched++) {
        for (int index = 0; index < NODES; index++) {
            ns = 20000 + 10000 * (uint64_t)((launched + index) % 7);
            CHECK(cuGraphExecKernelNodeSetParams_v2(executable, nodes[index], &parameters));
        }
        CHECK(cuGraphLaunch(executable, stream));
        if (launched % 10 == 9) {
            CHECK(cuStreamSynchronize(stream));
            if (launched % 20 == 19)
                pause_us(2000);
        }
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
    printf("{\"program\":\"graphs\",\"graph_launches\":%d,\"copies\":{\"count\":0,\"bytes\":0},\"memsets\":{\"count\":0,"
           "\"bytes\":0},\"in_graphs\":{\"graph_argns\":%d}}\n",
           LAUNCHES, LAUNCHES * NODES);
}

int main(int argc, char **argv)
{
    start_graphs();
    if (argc > 1 && strcmp(argv[1], "queued") == 0) {
        queued();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "large") == 0) {
        large();
    } else if (argc > 1 && strcmp(argv[1], "programmatic") == 0) {
        programmatic();
    } else if (argc > 1 && strcmp(argv[1], "conditional") == 0) {
        conditional();
    } else {
        every_way_to_instantiate();
        nodes_set_anew();
        children_two_deep();
        whole_graphs_updated();
        captured();
    }
    print_ran("graphs");
    return 0;
}
