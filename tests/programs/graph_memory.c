// Uses memory that graphs allocate while they run, through the driver: by nodes added by hand and by captured calls;
// freed inside, by calls, by another graph, or by the next launch; with an address reused, a graph moved into another,
// and launches that must fail. One block is kept to the end. Prints the calls.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include "driver.h"

#define CU(name, export, arguments) COUNTED(#name, export arguments)

enum { UNIT = 1 << 20 };

static CUstream stream;
static CUfunction kernel;

static CUgraph new_graph(void)
{
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    return graph;
}

// Adds a node that allocates memory, after another node or none.
static CUgraphNode take(CUgraph graph, CUgraphNode before, size_t bytes, CUdeviceptr *address)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.bytesize = bytes};
    CUgraphNode node;
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, (&node, graph, &before, before != NULL, &parameters));
    *address = parameters.dptr;
    return node;
}

static CUgraphNode give(CUgraph graph, CUgraphNode before, CUdeviceptr address)
{
    CUgraphNode node;
    CU(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, (&node, graph, &before, before != NULL, address));
    return node;
}

static CUgraphNode set(CUgraph graph, CUgraphNode before, CUdeviceptr address, size_t bytes)
{
    CUDA_MEMSET_NODE_PARAMS parameters = {.dst = address, .value = 1, .elementSize = 1, .width = bytes, .height = 1};
    CUcontext context;
    CUgraphNode node;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphAddMemsetNode(&node, graph, &before, before != NULL, &parameters, context));
    return node;
}

static CUgraphExec executable(CUgraph graph, unsigned long long flags)
{
    CUgraphExec made;
    CU(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (&made, graph, flags));
    return made;
}

static void launch_graph(CUgraphExec made)
{
    CU(cuGraphLaunch, cuGraphLaunch, (made, stream));
}

static void launch_fails(CUgraphExec made)
{
    REQUIRE(cuGraphLaunch(made, stream) == CUDA_ERROR_INVALID_VALUE);
    COUNT("cuGraphLaunch", 1);
}

static void destroy(CUgraph graph, CUgraphExec made)
{
    CHECK(cuGraphDestroy(graph));
    CU(cuGraphExecDestroy, cuGraphExecDestroy, (made));
}

// Uses two blocks: one is freed inside, the other by calls, and may not exist when the graph is launched again.
static void by_hand(void)
{
    CUgraph graph = new_graph();
    CUdeviceptr kept, passing;
    CUgraphNode node = take(graph, NULL, 3 * UNIT, &kept);
    node = set(graph, node, kept, 3 * UNIT);
    node = take(graph, node, 5 * UNIT, &passing);
    node = set(graph, node, passing, UNIT);
    give(graph, node, passing);
    CUgraphExec made = executable(graph, 0);
    CU(cuGraphUpload, cuGraphUpload, (made, stream));
    launch_graph(made);
    launch_fails(made);
    // A block that a launch left is device memory: an untyped copy accepts it.
    char here[64];
    CU(cuMemcpy, cuMemcpy, ((CUdeviceptr)here, kept, sizeof here));
    REQUIRE(here[63] == 1);
    CU(cuMemFree, cuMemFree_v2, (kept));
    launch_graph(made);
    CU(cuMemFreeAsync, cuMemFreeAsync, (kept, stream));
    destroy(graph, made);
}

// One graph allocates and another frees.
static void by_another(void)
{
    CUgraph taking = new_graph(), freeing = new_graph();
    CUdeviceptr block;
    take(taking, NULL, 7 * UNIT, &block);
    give(freeing, set(freeing, NULL, block, UNIT), block);
    CUgraphExec first = executable(taking, 0), second = executable(freeing, 0);
    launch_fails(second);
    for (int round = 0; round < 3; round++) {
        launch_graph(first);
        launch_graph(second);
    }
    destroy(taking, first);
    destroy(freeing, second);
}

// Captures stream-ordered allocations, from the device's pool and from one of its own.
static void captured(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemoryPool pool;
    CUdeviceptr before, inside, outside;
    CUgraph graph;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemPoolCreate, cuMemPoolCreate, (&pool, &properties));
    CU(cuMemAllocAsync, cuMemAllocAsync, (&before, 2 * UNIT, stream));
    CU(cuStreamBeginCapture, cuStreamBeginCapture_v2, (stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CU(cuMemAllocAsync, cuMemAllocAsync, (&inside, 11 * UNIT, stream));
    CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (&outside, 13 * UNIT, pool, stream));
    CU(cuMemsetD8Async, cuMemsetD8Async, (inside, 1, 11 * UNIT, stream));
    launch(kernel, stream);
    CU(cuMemFreeAsync, cuMemFreeAsync, (inside, stream));
    CU(cuStreamEndCapture, cuStreamEndCapture, (stream, &graph));
    CUgraphExec made = executable(graph, 0);
    for (int round = 0; round < 4; round++) {
        launch_graph(made);
        CU(cuMemFreeAsync, cuMemFreeAsync, (outside, stream));
    }
    CU(cuMemFreeAsync, cuMemFreeAsync, (before, stream));
    CU(cuMemPoolDestroy, cuMemPoolDestroy, (pool));
    destroy(graph, made);
}

// A block that a launch leaves is freed by the next launch. The last one is freed with its graph.
static void by_the_next(void)
{
    CUgraph graph = new_graph();
    CUdeviceptr one, two;
    CUgraphNode node = take(graph, NULL, 2 * UNIT, &one);
    take(graph, node, 4 * UNIT, &two);
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    CUgraphExec made;
    CU(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, (&made, graph, &parameters));
    launch_graph(made);
    CU(cuMemFree, cuMemFree_v2, (two));
    for (int round = 0; round < 3; round++)
        launch_graph(made);
    destroy(graph, made);
    CU(cuStreamSynchronize, cuStreamSynchronize, (stream));
    CU(cuMemFree, cuMemFree_v2, (one));
    CU(cuMemFree, cuMemFree_v2, (two));
}

// Reuses an address inside a graph, for smaller and larger blocks; meanwhile the executable graph is changed and
// updated.
static void changed(void)
{
    CUgraph graph = new_graph();
    CUdeviceptr first, second, third;
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                             .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUgraphExecUpdateResultInfo info;
    CUgraphNode work, node = take(graph, NULL, 6 * UNIT, &first);
    parameters.kernelParams = arguments;
    CHECK(cuGraphAddKernelNode_v2(&work, graph, &node, 1, &parameters));
    node = give(graph, work, first);
    node = take(graph, node, 5 * UNIT, &second);
    REQUIRE(first == second);
    take(graph, node, UNIT, &third);
    give(graph, node, second);
    CUgraphExec made = executable(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launch_graph(made);
    parameters.gridDimX = 2;
    CU(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, (made, work, &parameters));
    launch_graph(made);
    CU(cuGraphExecUpdate, cuGraphExecUpdate_v2, (made, graph, &info));
    launch_graph(made);
    CU(cuMemFreeAsync, cuMemFreeAsync, (third, stream));
    destroy(graph, made);
}

// Uses a child graph with memory, which its parent then owns. Its blocks are kept.
static void moved(void)
{
    CUgraph parent = new_graph(), child = new_graph();
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphNode node;
    CUdeviceptr kept, passing;
    node = take(child, NULL, 9 * UNIT, &passing);
    take(child, node, UNIT, &kept);
    give(child, node, passing);
    parameters.graph.graph = child;
    parameters.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    CHECK(cuGraphAddNode(&node, parent, NULL, 0, &parameters));
    CUgraphExec made = executable(parent, 0);
    launch_graph(made);
    destroy(parent, made);
}

int main(void)
{
    CUdeviceptr block;
    start_cuda();
    stream = new_stream();
    kernel = load_kernel("in_graph_5us");
    launch(kernel, stream);
    CU(cuMemAlloc, cuMemAlloc_v2, (&block, 100000));
    by_hand();
    by_another();
    captured();
    by_the_next();
    changed();
    moved();
    CU(cuStreamSynchronize, cuStreamSynchronize, (stream));
    CU(cuMemFree, cuMemFree_v2, (block));
    CU(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, (0));
    printf("{\"program\":\"graph_memory\",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
