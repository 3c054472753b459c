// Uses memory that graphs allocate while they run, through the runtime: by nodes added by hand, and like a framework's
// allocator that uses cudaMallocAsync during a capture. That allocates and frees repeatedly, and leaves a last block to
// its user, who frees it after each replay or leaves that to the next one. Prints the calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"

#define CUDA(name, arguments) COUNTED(#name, name arguments)

enum { UNIT = 1 << 20, LAYERS = 6, REPLAYS = 5 };

static cudaStream_t stream;

static void by_hand(void)
{
    struct cudaMemAllocNodeParams parameters = {.bytesize = 3 * UNIT};
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cudaGraphNode_t taking, freeing;
    uint64_t most = 0;
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaGraphCreate(&graph, 0));
    CUDA(cudaGraphAddMemAllocNode, (&taking, graph, NULL, 0, &parameters));
    CUDA(cudaGraphAddMemFreeNode, (&freeing, graph, &taking, 1, parameters.dptr));
    CUDA(cudaGraphInstantiateWithFlags, (&made, graph, 0));
    for (int replay = 0; replay < REPLAYS; replay++)
        CUDA(cudaGraphLaunch, (made, stream));
    CUDA(cudaStreamSynchronize, (stream));
    CUDA(cudaDeviceGetGraphMemAttribute, (0, cudaGraphMemAttrUsedMemHigh, &most));
    REQUIRE(most == 3 * UNIT);
    most = 0;
    CUDA(cudaDeviceSetGraphMemAttribute, (0, cudaGraphMemAttrUsedMemHigh, &most));
    CUDA(cudaDeviceGraphMemTrim, (0));
    CUDA(cudaGraphExecDestroy, (made));
    CHECK(cudaGraphDestroy(graph));
}

// Layers whose input is freed once their output exists. The last output belongs to the user.
static void *capture(cudaGraph_t *graph)
{
    char *input, *output;
    CUDA(cudaStreamBeginCapture, (stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMallocAsync, ((void **)&input, UNIT, stream));
    for (int layer = 1; layer <= LAYERS; layer++) {
        CUDA(cudaMallocAsync, ((void **)&output, (size_t)layer * UNIT, stream));
        CUDA(cudaMemsetAsync, (output, layer, UNIT, stream));
        CUDA(cudaFreeAsync, (input, stream));
        input = output;
    }
    CUDA(cudaStreamEndCapture, (stream, graph));
    return input;
}

static void replayed(unsigned long long flags)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    char *output = capture(&graph), here[16];
    CUDA(cudaGraphInstantiateWithFlags, (&made, graph, flags));
    CHECK(cudaGraphDestroy(graph));
    for (int replay = 0; replay < REPLAYS; replay++) {
        CUDA(cudaGraphLaunch, (made, stream));
        CUDA(cudaMemcpyAsync, (here, output, sizeof here, cudaMemcpyDefault, stream));
        CUDA(cudaStreamSynchronize, (stream));
        REQUIRE(here[15] == LAYERS);
        if (flags == 0)
            CUDA(cudaFreeAsync, (output, stream));
    }
    CUDA(cudaGraphExecDestroy, (made));
    if (flags != 0)
        CUDA(cudaFree, (output));
}

int main(void)
{
    CUDA(cudaStreamCreate, (&stream));
    by_hand();
    replayed(0);
    replayed(cudaGraphInstantiateFlagAutoFreeOnLaunch);
    CUDA(cudaStreamSynchronize, (stream));
    printf("{\"program\":\"graph_memory_runtime\",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
