// What the graph clients share: kernels by number, and the program's own account of what its graph launches ran.
#pragma once
#include "driver.h"

enum { KERNELS = 5, BYTES = 4096 };

// The work of one graph launch.
struct shape {
    int kernels[KERNELS];
    int copies, sets;
    long copied, set;
};

static const char *const names[KERNELS] = {"graph_a_3us", "graph_b_5us", "graph_c_8us", "graph_d_2us", "graph_e_13us"};
static CUfunction functions[KERNELS];
static CUstream stream;
static CUdeviceptr device;
static unsigned char *host;
static struct shape ran;
static long graph_launches;

static inline void start_graphs(void)
{
    start_cuda();
    for (int index = 0; index < KERNELS; index++)
        functions[index] = load_kernel(names[index]);
    stream = new_stream();
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemHostAlloc((void **)&host, BYTES, 0));
    // A kernel's first launch may load its module, which not every capture allows.
    for (int index = 0; index < KERNELS; index++)
        launch(functions[index], stream);
    CHECK(cuStreamSynchronize(stream));
}

// A graph's nodes and edges, for comparison.
struct picture {
    CUgraphNode nodes[64], from[64], to[64];
    size_t node_count, edge_count;
};

static inline struct picture picture_of(CUgraph graph)
{
    struct picture p = {.node_count = 64, .edge_count = 64};
    CHECK(cuGraphGetNodes(graph, p.nodes, &p.node_count));
    CHECK(cuGraphGetEdges(graph, p.from, p.to, &p.edge_count));
    return p;
}

// Whatever a tracer did inside a call, the graph has to be what it was before.
static inline void require_unchanged(CUgraph graph, struct picture before)
{
    struct picture now = picture_of(graph);
    REQUIRE(memcmp(&now, &before, sizeof now) == 0);
    for (size_t index = 0; index < now.node_count; index++) {
        CUgraphNodeType type;
        CUgraph child;
        CHECK(cuGraphNodeGetType(now.nodes[index], &type));
        REQUIRE(type != CU_GRAPH_NODE_TYPE_EVENT_RECORD);
        if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
            CHECK(cuGraphChildGraphNodeGetGraph(now.nodes[index], &child));
            require_unchanged(child, picture_of(child));
        }
    }
}

static inline CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec executable;
    struct picture before = picture_of(graph);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    require_unchanged(graph, before);
    return executable;
}

// Launches the graph, waits for each launch, and adds up what ran.
static inline void run_graph(CUgraphExec executable, int times, struct shape shape)
{
    for (int launched = 0; launched < times; launched++) {
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        pause_us(2000); // leaves a tracer time to read this launch's times before the next one
    }
    for (int index = 0; index < KERNELS; index++)
        ran.kernels[index] += times * shape.kernels[index];
    ran.copies += times * shape.copies;
    ran.sets += times * shape.sets;
    ran.copied += times * shape.copied;
    ran.set += times * shape.set;
    graph_launches += times;
}

static inline CUDA_KERNEL_NODE_PARAMS kernel_parameters(int kernel)
{
    static uint64_t nothing = 0;
    static void *arguments[] = {&nothing};
    return (CUDA_KERNEL_NODE_PARAMS){.func = functions[kernel], .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                     .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments};
}

static inline CUgraphNode add_kernel(CUgraph graph, int kernel, const CUgraphNode *before, size_t count)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_parameters(kernel);
    CHECK(cuGraphAddKernelNode(&node, graph, before, count, &parameters));
    return node;
}

static inline CUDA_MEMCPY3D copy_parameters(size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = device, .WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static inline CUDA_MEMSET_NODE_PARAMS set_parameters(unsigned value, size_t bytes)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = device, .pitch = bytes, .value = value, .elementSize = 1, .width = bytes,
                                     .height = 1};
}

static inline CUcontext current(void)
{
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    return context;
}

// Compares what is on the device now: `value` in the first `bytes`.
static inline void require_bytes(unsigned char value, size_t bytes)
{
    unsigned char back[BYTES];
    CHECK(cuMemcpyDtoH(back, device, bytes));
    for (size_t index = 0; index < bytes; index++)
        REQUIRE(back[index] == value);
}

static inline void print_ran(const char *program)
{
    printf("{\"program\":\"%s\",\"graph_launches\":%ld,\"copies\":{\"count\":%d,\"bytes\":%ld},\"memsets\":{\"count\":%d,"
           "\"bytes\":%ld},\"in_graphs\":{",
           program, graph_launches, ran.copies, ran.copied, ran.sets, ran.set);
    for (int index = 0; index < KERNELS; index++)
        printf("%s\"%s\":%d", index ? "," : "", names[index], ran.kernels[index]);
    printf("}}\n");
}
