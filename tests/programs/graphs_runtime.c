// Builds and changes graphs through the runtime: by hand, by capture, with a child graph, with node parameters set,
// nodes disabled, and updates. Prints what its launches must have run. Registers its kernels the way nvcc's output
// does, so it runs on the simulated runtime only.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

enum { BYTES = 4096 };

static void stub_a(void) {}
static void stub_b(void) {}

static cudaStream_t stream;
static char *device, *host;
static int launches, ran_a, ran_b, copies, copied_less, sets;

static struct cudaKernelNodeParams kernel(void (*stub)(void))
{
    static uint64_t nothing;
    static void *arguments[] = {&nothing};
    return (struct cudaKernelNodeParams){.func = (void *)stub, .gridDim = {1, 1, 1}, .blockDim = {32, 1, 1},
                                         .kernelParams = arguments};
}

static cudaGraphNode_t add(cudaGraph_t graph, void (*stub)(void), const cudaGraphNode_t *before, size_t count)
{
    cudaGraphNode_t node;
    struct cudaKernelNodeParams parameters = kernel(stub);
    CHECK(cudaGraphAddKernelNode(&node, graph, before, count, &parameters));
    return node;
}

static void launch(void (*stub)(void))
{
    CHECK(cudaLaunchKernel((const void *)stub, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, stream));
}

static void run(cudaGraphExec_t executable, int times, int a, int b, int copied, int set)
{
    for (int launched = 0; launched < times; launched++) {
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        pause_us(2000);
    }
    launches += times, ran_a += times * a, ran_b += times * b, copies += times * copied, sets += times * set;
}

static void require_shape(cudaGraph_t graph, size_t nodes, size_t edges)
{
    size_t node_count = 0, edge_count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &node_count));
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, &edge_count));
    REQUIRE(node_count == nodes && edge_count == edges);
}

static struct cudaMemsetParams set_to(unsigned value)
{
    return (struct cudaMemsetParams){.dst = device, .pitch = BYTES, .value = value, .elementSize = 1, .width = BYTES, .height = 1};
}

// copy → a → b → memset
static cudaGraph_t by_hand(cudaGraphNode_t nodes[4], void (*second)(void))
{
    cudaGraph_t graph;
    struct cudaMemsetParams set = set_to(5);
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&nodes[0], graph, NULL, 0, device, host, BYTES, cudaMemcpyHostToDevice));
    nodes[1] = add(graph, stub_a, &nodes[0], 1);
    nodes[2] = add(graph, second, &nodes[1], 1);
    CHECK(cudaGraphAddMemsetNode(&nodes[3], graph, &nodes[2], 1, &set));
    return graph;
}

int main(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub_a, "runtime_a_4us");
    register_kernel(handle, (const void *)stub_b, "runtime_b_9us");
    __cudaRegisterFatBinaryEnd(handle);
    cudaGraphNode_t nodes[4], others[4], first, child;
    cudaGraph_t captured, outer, other_child, captured_to;
    int version;
    cudaGraphExec_t executable, nested;
    cudaGraphExecUpdateResultInfo info;
    cudaGraphInstantiateParams parameters = {0};
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    launch(stub_a), launch(stub_b);
    CHECK(cudaStreamSynchronize(stream));

    cudaGraph_t hand = by_hand(nodes, stub_b), other = by_hand(others, stub_a);
    CHECK(cudaGraphInstantiateWithFlags(&executable, hand, 0));
    require_shape(hand, 4, 3);
    CHECK(cudaGraphUpload(executable, stream));
    run(executable, 3, 1, 1, 1, 1);
    struct cudaKernelNodeParams b = kernel(stub_b), a = kernel(stub_a);
    CHECK(cudaGraphExecKernelNodeSetParams(executable, nodes[1], &b));
    run(executable, 2, 0, 2, 1, 1);
    struct cudaMemsetParams sevens = set_to(7);
    struct cudaMemcpy3DParms part = {.kind = cudaMemcpyHostToDevice, .extent = {BYTES / 2, 1, 1}};
    part.srcPtr = (struct cudaPitchedPtr){host, BYTES, BYTES, 1};
    part.dstPtr = (struct cudaPitchedPtr){device, BYTES, BYTES, 1};
    CHECK(cudaGraphExecMemsetNodeSetParams(executable, nodes[3], &sevens));
    CHECK(cudaGraphExecMemcpyNodeSetParams(executable, nodes[0], &part));
    run(executable, 2, 0, 2, 1, 1);
    copied_less += 2 * BYTES / 2;
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes[0], device, host, BYTES, cudaMemcpyHostToDevice));
    CHECK(cudaGraphNodeSetEnabled(executable, nodes[2], 0));
    CHECK(cudaGraphNodeSetEnabled(executable, nodes[3], 0));
    run(executable, 2, 0, 1, 1, 0);
    CHECK(cudaGraphNodeSetEnabled(executable, nodes[2], 1));
    CHECK(cudaGraphNodeSetEnabled(executable, nodes[3], 1));
    CHECK(cudaGraphExecUpdate(executable, other, &info));
    REQUIRE(info.result == cudaGraphExecUpdateSuccess);
    require_shape(other, 4, 3);
    run(executable, 2, 2, 0, 1, 1);
    CHECK(cudaGraphExecKernelNodeSetParams(executable, nodes[1], &a));
    run(executable, 1, 2, 0, 1, 1);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(stub_a), launch(stub_b), launch(stub_b);
    CHECK(cudaStreamEndCapture(stream, &captured));
    require_shape(captured, 3, 2);
    CHECK(cudaGraphCreate(&outer, 0));
    first = add(outer, stub_a, NULL, 0);
    CHECK(cudaGraphAddChildGraphNode(&child, outer, &first, 1, captured));
    CHECK(cudaGraphInstantiateWithParams(&nested, outer, &parameters));
    require_shape(outer, 2, 1);
    run(nested, 2, 2, 2, 0, 0);
    // Puts another graph in the child's place, captured into an existing graph.
    CHECK(cudaGraphCreate(&other_child, 0));
    CHECK(cudaDriverGetVersion(&version));
    if (version >= 12030) {
        CHECK(cudaStreamBeginCaptureToGraph(stream, other_child, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
        launch(stub_b), launch(stub_b), launch(stub_b);
        CHECK(cudaStreamEndCapture(stream, &captured_to));
        REQUIRE(captured_to == other_child);
    } else {
        cudaGraphNode_t before = NULL;
        for (int kernels = 0; kernels < 3; kernels++)
            before = add(other_child, stub_b, &before, kernels > 0);
    }
    CHECK(cudaGraphExecChildGraphNodeSetParams(nested, child, other_child));
    run(nested, 3, 1, 3, 0, 0);

    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphExecDestroy(nested));
    CHECK(cudaGraphDestroy(hand));
    CHECK(cudaGraphDestroy(other));
    CHECK(cudaGraphDestroy(captured));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroy(other_child));
    REQUIRE(cudaGetLastError() == cudaSuccess);
    __cudaUnregisterFatBinary(handle);
    printf("{\"program\":\"graphs_runtime\",\"graph_launches\":%d,\"copies\":{\"count\":%d,\"bytes\":%d},\"memsets\":"
           "{\"count\":%d,\"bytes\":%d},\"in_graphs\":{\"runtime_a_4us\":%d,\"runtime_b_9us\":%d}}\n",
           launches, copies, copies * BYTES - copied_less, sets, sets * BYTES, ran_a, ran_b);
    return 0;
}
