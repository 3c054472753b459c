// Captures 50 launches and 2 copies into a graph and launches that 20 times, once in each capture mode. During captures
// of mode RELAXED or THREAD_LOCAL another thread launches, records events and allocates outside. Prints what was done.
// Exits with 99 if a capture was invalidated.
// link: -l:libcuda.so.1
#include "driver.h"

enum { CAPTURED = 50, COPIES = 2, GRAPH_LAUNCHES = 20, OUTSIDE = 100, BYTES = 4096 };

static CUfunction inside_kernel, outside_kernel;
static CUcontext context;
static CUstream outside_stream;

static void *launch_outside(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    for (int launched = 0; launched < OUTSIDE; launched++) {
        CUdeviceptr block;
        CHECK(cuMemAlloc(&block, BYTES));
        launch(outside_kernel, outside_stream);
        CHECK(cuEventRecord(event, outside_stream));
        if (launched % 10 == 9)
            CHECK(cuEventSynchronize(event));
        CHECK(cuMemFree(block));
    }
    CHECK(cuEventDestroy(event));
    return unused;
}

static void capture(CUstreamCaptureMode mode)
{
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr device;
    void *host;
    size_t nodes = 0;
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemHostAlloc(&host, BYTES, 0));
    CHECK(cuStreamBeginCapture(stream, mode));
    CHECK(cuMemcpyHtoDAsync(device, host, BYTES, stream));
    for (int captured = 0; captured < CAPTURED / 2; captured++)
        launch(inside_kernel, stream);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, launch_outside, NULL));
        CHECK(pthread_join(other, NULL));
    }
    for (int captured = CAPTURED / 2; captured < CAPTURED; captured++)
        launch(inside_kernel, stream);
    CHECK(cuMemcpyDtoHAsync(host, device, BYTES, stream));
    CUstreamCaptureStatus status;
    CHECK(cuStreamIsCapturing(stream, &status));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    // Whatever a tracer did, the graph contains exactly what the program captured.
    REQUIRE(nodes == CAPTURED + COPIES);
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (int launched = 0; launched < GRAPH_LAUNCHES; launched++)
        CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemFree(device));
    CHECK(cuStreamDestroy(stream));
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    inside_kernel = load_kernel("inside_4us");
    outside_kernel = load_kernel("outside_6us");
    outside_stream = new_stream();
    // A kernel's first launch may load its module, which not every capture allows.
    launch(inside_kernel, outside_stream);
    launch(outside_kernel, outside_stream);
    CHECK(cuStreamSynchronize(outside_stream));
    capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(cuStreamSynchronize(outside_stream));
    printf("{\"program\":\"capture_graph\",\"launches\":%d,\"captured\":%d,\"captured_copies\":%d,\"graph_launches\":%d,"
           "\"in_graphs\":%d,\"graph_copies\":%d}\n",
           2 + 2 * OUTSIDE, 3 * CAPTURED, 3 * COPIES, 3 * GRAPH_LAUNCHES, 3 * GRAPH_LAUNCHES * CAPTURED,
           3 * GRAPH_LAUNCHES * COPIES);
    return 0;
}
