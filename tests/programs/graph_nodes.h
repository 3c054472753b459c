// Builds graphs by every runtime call that adds a node, queries the nodes, sets their parameters and launches the
// graphs. Prints what its launches must have run. The including file defines what differs between versions of CUDA:
// ADD_NODE(node, graph, before, count, parameters), EDGES(graph, from, to, count), BEFORE(node, nodes, count),
// BEHIND(node, nodes, count), CONNECT(graph, from, to, count) and DISCONNECT(graph, from, to, count).
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name, int external, size_t bytes,
                       int constant, int global);

enum { WIDTH = 256, ROWS = 16, BYTES = WIDTH * ROWS, TIMES = 3, NODES = 12 };

static void stub_a(void) {}
static void stub_b(void) {}
static char table[BYTES];

static cudaStream_t stream;
static char *device, *other, *host;
static atomic_int called;
static int launches, ran_a, ran_b, copies, copied, sets, set_bytes;

static void CUDART_CB call(void *data)
{
    atomic_fetch_add(&called, (int)(intptr_t)data);
}

static struct cudaMemcpy3DParms rows(void *to, void *from, size_t height)
{
    struct cudaMemcpy3DParms copy = {.kind = cudaMemcpyDefault, .extent = {WIDTH, height, 1}};
    copy.srcPtr = (struct cudaPitchedPtr){from, WIDTH, WIDTH, height};
    copy.dstPtr = (struct cudaPitchedPtr){to, WIDTH, WIDTH, height};
    return copy;
}

static struct cudaKernelNodeParams kernel(void (*stub)(void))
{
    static uint64_t nothing;
    static void *arguments[] = {&nothing};
    return (struct cudaKernelNodeParams){.func = (void *)stub, .gridDim = {1, 1, 1}, .blockDim = {32, 1, 1},
                                         .kernelParams = arguments};
}

// The same with the structure for nodes of every kind.
static struct cudaGraphNodeParams any_kernel(void (*stub)(void))
{
    struct cudaKernelNodeParams of = kernel(stub);
    struct cudaGraphNodeParams parameters = {.type = cudaGraphNodeTypeKernel};
    parameters.kernel.func = of.func;
    parameters.kernel.gridDim = of.gridDim;
    parameters.kernel.blockDim = of.blockDim;
    parameters.kernel.kernelParams = of.kernelParams;
    return parameters;
}

static void run(cudaGraphExec_t executable, int a, int b, int host_calls)
{
    int before = atomic_load(&called);
    for (int launched = 0; launched < TIMES; launched++) {
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        pause_us(2000);
    }
    REQUIRE(atomic_load(&called) - before == TIMES * host_calls);
    launches += TIMES, ran_a += TIMES * a, ran_b += TIMES * b;
}

static void moved(int count, int bytes, int set_count, int set)
{
    copies += TIMES * count, copied += TIMES * bytes, sets += TIMES * set_count, set_bytes += TIMES * set;
}

static void require_type(cudaGraphNode_t node, enum cudaGraphNodeType wanted)
{
    enum cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(node, &type));
    REQUIRE(type == wanted);
}

// copy → a → host → empty → b → copy → memset → host → record → wait → to symbol → from symbol, each after the one
// before.
static cudaGraph_t every_kind(cudaGraphNode_t nodes[NODES], cudaEvent_t event)
{
    cudaGraph_t graph;
    struct cudaMemcpy3DParms copy = rows(device, host, ROWS);
    struct cudaKernelNodeParams a = kernel(stub_a);
    struct cudaHostNodeParams one = {.fn = call, .userData = (void *)1};
    struct cudaGraphNodeParams b = any_kernel(stub_b), between = {.type = cudaGraphNodeTypeMemcpy},
                               set = {.type = cudaGraphNodeTypeMemset}, ten = {.type = cudaGraphNodeTypeHost};
    between.memcpy.copyParams = rows(other, device, 4);
    set.memset.dst = device, set.memset.value = 3, set.memset.elementSize = 1;
    set.memset.width = 100, set.memset.height = 1;
    ten.host.fn = call, ten.host.userData = (void *)10;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &copy));
    CHECK(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &a));
    CHECK(cudaGraphAddHostNode(&nodes[2], graph, &nodes[1], 1, &one));
    CHECK(cudaGraphAddEmptyNode(&nodes[3], graph, &nodes[2], 1));
    CHECK(ADD_NODE(&nodes[4], graph, &nodes[3], 1, &b));
    CHECK(ADD_NODE(&nodes[5], graph, &nodes[4], 1, &between));
    CHECK(ADD_NODE(&nodes[6], graph, &nodes[5], 1, &set));
    CHECK(ADD_NODE(&nodes[7], graph, &nodes[6], 1, &ten));
    CHECK(cudaGraphAddEventRecordNode(&nodes[8], graph, &nodes[7], 1, event));
    CHECK(cudaGraphAddEventWaitNode(&nodes[9], graph, &nodes[8], 1, event));
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&nodes[10], graph, &nodes[9], 1, table, device, 50, 8, cudaMemcpyDeviceToDevice));
    CHECK(cudaGraphAddMemcpyNodeFromSymbol(&nodes[11], graph, &nodes[10], 1, other, table, 60, 0, cudaMemcpyDefault));
    return graph;
}

static void query_nodes(cudaGraph_t graph, const cudaGraphNode_t nodes[NODES], cudaEvent_t event)
{
    static const enum cudaGraphNodeType types[NODES] = {
        cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeKernel, cudaGraphNodeTypeHost, cudaGraphNodeTypeEmpty,
        cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset, cudaGraphNodeTypeHost,
        cudaGraphNodeTypeEventRecord, cudaGraphNodeTypeWaitEvent, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemcpy};
    struct cudaKernelNodeParams kernel_of;
    struct cudaMemcpy3DParms copy;
    struct cudaMemsetParams set;
    struct cudaHostNodeParams host_of;
    cudaEvent_t of;
    cudaGraphNode_t some[NODES], others[NODES], found;
    cudaGraph_t clone;
    size_t count = NODES;
    for (int node = 0; node < NODES; node++)
        require_type(nodes[node], types[node]);
    CHECK(cudaGraphKernelNodeGetParams(nodes[4], &kernel_of));
    REQUIRE(kernel_of.func == (void *)stub_b && kernel_of.blockDim.x == 32);
    CHECK(cudaGraphMemcpyNodeGetParams(nodes[0], &copy));
    REQUIRE(copy.extent.width == WIDTH && copy.extent.height == ROWS && copy.dstPtr.ptr == device);
    CHECK(cudaGraphMemsetNodeGetParams(nodes[6], &set));
    REQUIRE(set.dst == device && set.value == 3 && set.width == 100);
    CHECK(cudaGraphHostNodeGetParams(nodes[7], &host_of));
    REQUIRE(host_of.fn == call && host_of.userData == (void *)10);
    CHECK(cudaGraphEventRecordNodeGetEvent(nodes[8], &of));
    REQUIRE(of == event);
    CHECK(cudaGraphEventWaitNodeGetEvent(nodes[9], &of));
    REQUIRE(of == event);
    CHECK(cudaGraphGetRootNodes(graph, some, &count));
    REQUIRE(count == 1 && some[0] == nodes[0]);
    count = NODES;
    CHECK(EDGES(graph, some, others, &count));
    REQUIRE(count == NODES - 1);
    count = NODES;
    CHECK(BEFORE(nodes[5], some, &count));
    REQUIRE(count == 1 && some[0] == nodes[4]);
    count = NODES;
    CHECK(BEHIND(nodes[5], some, &count));
    REQUIRE(count == 1 && some[0] == nodes[6]);
    CHECK(DISCONNECT(graph, &nodes[4], &nodes[5], 1));
    REQUIRE(DISCONNECT(graph, &nodes[4], &nodes[5], 1) == cudaErrorInvalidValue);
    CHECK(CONNECT(graph, &nodes[4], &nodes[5], 1));
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphNodeFindInClone(&found, nodes[3], clone));
    REQUIRE(found != nodes[3]);
    CHECK(cudaGraphDestroyNode(found));
    REQUIRE(cudaGraphNodeGetType(found, &(enum cudaGraphNodeType){0}) != cudaSuccess);
    CHECK(cudaGraphDestroy(clone));
}

static void refused(cudaGraph_t graph)
{
    cudaGraphNode_t node;
    struct cudaHostNodeParams nobody = {0};
    struct cudaMemcpy3DParms nowhere = {.extent = {1, 1, 1}};
    REQUIRE(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, NULL) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &nowhere) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddHostNode(&node, graph, NULL, 0, NULL) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddHostNode(&node, graph, NULL, 0, &nobody) == cudaErrorInvalidValue);
    REQUIRE(ADD_NODE(&node, graph, NULL, 0, NULL) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddEventRecordNode(&node, graph, NULL, 0, (cudaEvent_t)&node) != cudaSuccess);
    REQUIRE(cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, table, device, BYTES, 1, cudaMemcpyDefault)
            == cudaErrorInvalidValue);
    cudaGetLastError();
}

static void set_anew(cudaGraphExec_t executable, const cudaGraphNode_t nodes[NODES])
{
    struct cudaHostNodeParams hundred = {.fn = call, .userData = (void *)100};
    struct cudaGraphNodeParams a = any_kernel(stub_a);
    unsigned enabled = 0;
    CHECK(cudaGraphExecHostNodeSetParams(executable, nodes[2], &hundred));
    CHECK(cudaGraphExecNodeSetParams(executable, nodes[4], &a));
    CHECK(cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, nodes[10], table, device, 20, 0, cudaMemcpyDefault));
    CHECK(cudaGraphNodeGetEnabled(executable, nodes[4], &enabled));
    REQUIRE(enabled == 1);
}

// Allocates memory, runs two kernels, and frees the memory. If the handle `decides` is not 0, the kernels run in the
// body of a conditional node.
static cudaGraph_t taking(bool decides)
{
    cudaGraph_t graph, in;
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t take_node, decide_node, give_node, inner[2];
    struct cudaGraphNodeParams take = {.type = cudaGraphNodeTypeMemAlloc}, decide = {.type = cudaGraphNodeTypeConditional};
    struct cudaGraphNodeParams give = {.type = cudaGraphNodeTypeMemFree}, body = any_kernel(stub_b);
    take.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    take.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    take.alloc.bytesize = BYTES;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(ADD_NODE(&take_node, graph, NULL, 0, &take));
    REQUIRE(take.alloc.dptr != NULL);
    in = graph;
    if (decides) {
        CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
        decide.conditional.handle = handle;
        decide.conditional.type = cudaGraphCondTypeIf;
        decide.conditional.size = 1;
        CHECK(ADD_NODE(&decide_node, graph, &take_node, 1, &decide));
        require_type(decide_node, cudaGraphNodeTypeConditional);
        REQUIRE(cudaGraphConditionalHandleCreate(&handle, graph, 1, 7) == cudaErrorInvalidValue);
        cudaGetLastError();
        in = decide.conditional.phGraph_out[0];
    }
    CHECK(ADD_NODE(&inner[0], in, &take_node, !decides, &body));
    CHECK(ADD_NODE(&inner[1], in, inner, 1, &body));
    give.free.dptr = take.alloc.dptr;
    CHECK(ADD_NODE(&give_node, graph, decides ? &decide_node : &inner[1], 1, &give));
    return graph;
}

// With an argument, the kernels of the second graph are inside a conditional node.
static int run_nodes(const char *program, bool decides)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub_a, "nodes_a_4us");
    register_kernel(handle, (const void *)stub_b, "nodes_b_9us");
    __cudaRegisterVar(handle, table, "table", "table", 0, BYTES, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    cudaGraphNode_t nodes[NODES];
    cudaGraphExec_t executable, second;
    cudaEvent_t event;
    void *address;
    size_t bytes;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaMalloc((void **)&other, BYTES));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaGetSymbolSize(&bytes, table));
    REQUIRE(address != NULL && bytes == BYTES && cudaGetSymbolSize(&bytes, &bytes) == cudaErrorInvalidSymbol);
    cudaGraph_t graph = every_kind(nodes, event), other_graph = taking(decides);
    query_nodes(graph, nodes, event);
    refused(graph);
    CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    run(executable, 1, 1, 11), moved(4, BYTES + 4 * WIDTH + 50 + 60, 1, 100);
    set_anew(executable, nodes);
    run(executable, 2, 0, 110), moved(4, BYTES + 4 * WIDTH + 20 + 60, 1, 100);
    CHECK(cudaGraphInstantiateWithFlags(&second, other_graph, 0));
    run(second, 0, 2, 0);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphExecDestroy(second));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(other_graph));
    REQUIRE(cudaGetLastError() == cudaSuccess);
    __cudaUnregisterFatBinary(handle);
    printf("{\"program\":\"%s\",\"graph_launches\":%d,\"copies\":{\"count\":%d,\"bytes\":%d},\"memsets\":{\"count\":%d,"
           "\"bytes\":%d},\"in_graphs\":{\"nodes_a_4us\":%d,\"nodes_b_9us\":%d}}\n",
           program, launches, copies, copied, sets, set_bytes, ran_a, ran_b);
    return 0;
}
