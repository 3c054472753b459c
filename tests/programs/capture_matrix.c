// Runs one stream capture in one arrangement of threads and streams, and prints what every call returned:
//
//   capture_matrix MODE ARRANGEMENT     MODE global, thread or relaxed; ARRANGEMENT a name of the table at the end
//
// No call's result is checked, all are printed: a tracer must not change one. Prints the results by thread, and exactly
// what was done. Some arrangements do what breaks the capture if the mode or the driver forbids it.
// link: -l:libcuda.so.1
#include "driver.h"

enum { BYTES = 4096, GRAPH_LAUNCHES = 3, DEEP_STREAMS = 4, DEEP = 100, LOG_BYTES = 1 << 16 };

static CUstreamCaptureMode mode;
static CUcontext context, another;
static CUfunction inside, outside, deep;
static CUstream stream, fork_stream, own_stream;
static CUevent fork_event, join_event;
static CUdeviceptr device;
static void *host;
static atomic_long launches, captured, in_graphs, graph_launches;

// ---- what each thread's calls returned ----

enum { FIRST, SECOND, LOGS };
static char logs[LOGS][LOG_BYTES];
static _Thread_local int me;

static void log_result(const char *call, long result)
{
    char *log = logs[me];
    size_t used = strlen(log);
    REQUIRE(used + 100 < LOG_BYTES);
    size_t name = strcspn(call, "(");
    snprintf(log + used, LOG_BYTES - used, "%s\"%.*s %ld\"", used ? "," : "", (int)name, call, result);
}

static CUresult logged(const char *call, CUresult result)
{
    log_result(call, result);
    return result;
}

#define LOGGED(call) logged(#call, call)

static CUresult launch_on(CUfunction kernel, CUstream on, atomic_long *count)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUresult result = LOGGED(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, on, arguments, NULL));
    if (result == CUDA_SUCCESS)
        atomic_fetch_add(count, 1);
    return result;
}

// ---- parts of the arrangements ----

static void begin(CUstream on)
{
    LOGGED(cuStreamBeginCapture(on, mode));
}

static void capture_some(CUstream on, int count, unsigned pause)
{
    for (int left = count; left > 0; left--) {
        launch_on(inside, on, &captured);
        if (pause > 0)
            pause_us(pause);
    }
    LOGGED(cuMemcpyHtoDAsync(device, host, BYTES, on));
    LOGGED(cuMemsetD8Async(device, 7, BYTES, on));
}

// Ends the capture, and returns its graph if that succeeded.
static CUgraph finish(CUstream on)
{
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    LOGGED(cuStreamIsCapturing(on, &status));
    log_result("status", status);
    LOGGED(cuStreamEndCapture(on, &graph));
    log_result("graph", graph != NULL);
    return graph;
}

static void run_graph(CUgraph graph, CUstream on, long kernels)
{
    CUgraphExec executable;
    size_t nodes = 0;
    if (graph == NULL)
        return;
    LOGGED(cuGraphGetNodes(graph, NULL, &nodes));
    log_result("nodes", (long)nodes);
    if (LOGGED(cuGraphInstantiate(&executable, graph, 0)) != CUDA_SUCCESS)
        return;
    for (int left = GRAPH_LAUNCHES; left > 0; left--)
        if (LOGGED(cuGraphLaunch(executable, on)) == CUDA_SUCCESS) {
            atomic_fetch_add(&graph_launches, 1);
            atomic_fetch_add(&in_graphs, kernels);
        }
    LOGGED(cuStreamSynchronize(on));
    LOGGED(cuGraphExecDestroy(executable));
    LOGGED(cuGraphDestroy(graph));
}

static void end(CUstream on, long kernels)
{
    run_graph(finish(on), on, kernels);
}

static pthread_t meanwhile(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL));
    return thread;
}

static void start_second(void)
{
    me = SECOND;
    CHECK(cuCtxSetCurrent(context));
}

// ---- arrangements ----

static void alone(void)
{
    begin(stream);
    capture_some(stream, 5, 0);
    for (int left = 20; left > 0; left--)
        launch_on(outside, own_stream, &launches);
    LOGGED(cuMemcpyHtoDAsync(device, host, BYTES, own_stream));
    capture_some(stream, 5, 100);
    end(stream, 10);
}

static void per_thread_default(void)
{
    begin(CU_STREAM_PER_THREAD);
    capture_some(CU_STREAM_PER_THREAD, 5, 50);
    launch_on(outside, own_stream, &launches);
    end(CU_STREAM_PER_THREAD, 5);
}

static void fork_and_join(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    LOGGED(cuEventRecord(fork_event, stream));
    LOGGED(cuStreamWaitEvent(fork_stream, fork_event, 0));
    capture_some(fork_stream, 3, 100);
    launch_on(outside, own_stream, &launches);
    capture_some(stream, 3, 100);
    LOGGED(cuEventRecord(join_event, fork_stream));
    LOGGED(cuStreamWaitEvent(stream, join_event, 0));
    capture_some(stream, 1, 0);
    end(stream, 9);
    // The stream that joined is outside the capture again.
    launch_on(outside, fork_stream, &launches);
}

// Ends with work on a stream that was not joined back: the capture fails.
static void unjoined(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    LOGGED(cuEventRecord(fork_event, stream));
    LOGGED(cuStreamWaitEvent(fork_stream, fork_event, 0));
    capture_some(fork_stream, 2, 100);
    end(stream, 4);
    launch_on(outside, fork_stream, &launches);
}

static void to_graph(void)
{
    CUgraph graph;
    CUgraphExec executable;
    size_t nodes = 0;
    LOGGED(cuGraphCreate(&graph, 0));
    for (int turn = 0; turn < 2; turn++) {
        CUgraph same = NULL;
        LOGGED(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode));
        capture_some(stream, 4, 50);
        launch_on(outside, own_stream, &launches);
        LOGGED(cuStreamEndCapture(stream, &same));
        log_result("same", same == graph);
    }
    LOGGED(cuGraphGetNodes(graph, NULL, &nodes));
    log_result("nodes", (long)nodes);
    LOGGED(cuGraphInstantiate(&executable, graph, 0));
    if (LOGGED(cuGraphLaunch(executable, stream)) == CUDA_SUCCESS) {
        atomic_fetch_add(&graph_launches, 1);
        atomic_fetch_add(&in_graphs, 8);
    }
    LOGGED(cuStreamSynchronize(stream));
    LOGGED(cuGraphExecDestroy(executable));
    LOGGED(cuGraphDestroy(graph));
}

// The legacy stream would have to wait for the blocking stream that captures.
static void legacy_use(void)
{
    CUstream blocking;
    CUstreamCaptureStatus status;
    LOGGED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    launch_on(outside, NULL, &launches);
    begin(blocking);
    capture_some(blocking, 3, 100);
    LOGGED(cuStreamIsCapturing(NULL, &status));
    launch_on(inside, blocking, &captured);
    // From here on the capture is invalid.
    launch_on(outside, NULL, &launches);
    launch_on(inside, blocking, &captured);
    LOGGED(cuMemcpyHtoDAsync(device, host, BYTES, NULL));
    end(blocking, 4);
    launch_on(outside, NULL, &launches);
    begin(blocking);
    capture_some(blocking, 2, 0);
    end(blocking, 2);
    LOGGED(cuStreamDestroy(blocking));
}

static void invalidated(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    LOGGED(cuStreamSynchronize(stream));
    launch_on(inside, stream, &captured);
    launch_on(outside, own_stream, &launches);
    end(stream, 2);
    begin(stream);
    capture_some(stream, 2, 100);
    end(stream, 2);
}

// A batch of copies is refused, and the capture goes on.
static void batch_refused(void)
{
    CUdeviceptr to[] = {device, device + BYTES / 2}, from[] = {(CUdeviceptr)host, (CUdeviceptr)host + BYTES / 2};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t sizes[] = {64, 64}, start = 0, failed;
    begin(stream);
    capture_some(stream, 2, 0);
    LOGGED(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &start, 1, &failed, stream));
    capture_some(stream, 2, 0);
    end(stream, 4);
}

// Work that is timed, on many streams: a tracer that reads the times has to query them while the capture lasts.
static void pending_work(void)
{
    CUstream streams[DEEP_STREAMS];
    for (int at = 0; at < DEEP_STREAMS; at++)
        streams[at] = new_stream();
    for (int launched = 0; launched < DEEP; launched++)
        for (int at = 0; at < DEEP_STREAMS; at++)
            launch_on(deep, streams[at], &launches);
    begin(stream);
    capture_some(stream, 30, 150);
    launch_on(outside, own_stream, &launches);
    end(stream, 30);
    for (int at = 0; at < DEEP_STREAMS; at++)
        LOGGED(cuStreamSynchronize(streams[at]));
}

// First uses a context that no call has used before while the capture lasts.
static void first_use(void)
{
    CUstream there, late;
    CUfunction kernel;
    CHECK(cuCtxCreate(&another, 0, 0));
    CHECK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
    kernel = load_kernel("there_3us");
    begin(there);
    launch_on(kernel, there, &captured);
    for (int left = 10; left > 0; left--)
        launch_on(kernel, late, &launches);
    pause_us(2000);
    launch_on(kernel, there, &captured);
    end(there, 2);
    launch_on(kernel, late, &launches);
    LOGGED(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(context));
    LOGGED(cuCtxDestroy(another));
}

// Creates streams while the capture lasts; one joins it, one does not. If the driver forbids creating them then, there
// are none.
static void made_meanwhile(void)
{
    CUstream joined = NULL, late = NULL;
    begin(stream);
    launch_on(inside, stream, &captured);
    LOGGED(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
    LOGGED(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
    if (joined == NULL || late == NULL) {
        LOGGED(cuStreamEndCapture(stream, &(CUgraph){NULL}));
        return;
    }
    LOGGED(cuEventRecord(fork_event, stream));
    LOGGED(cuStreamWaitEvent(joined, fork_event, 0));
    for (int left = 5; left > 0; left--) {
        launch_on(inside, joined, &captured);
        launch_on(outside, late, &launches);
    }
    LOGGED(cuEventRecord(join_event, joined));
    LOGGED(cuStreamWaitEvent(stream, join_event, 0));
    end(stream, 6);
    launch_on(outside, joined, &launches);
    LOGGED(cuStreamDestroy(joined));
    LOGGED(cuStreamDestroy(late));
}

// ---- arrangements of two threads ----

// Does what every mode lets another thread do: enqueue work.
static void *enqueue(void *unused)
{
    start_second();
    for (int left = 50; left > 0; left--) {
        launch_on(outside, own_stream, &launches);
        LOGGED(cuEventRecord(fork_event, own_stream));
        LOGGED(cuStreamWaitEvent(fork_stream, fork_event, 0));
        if (left % 10 == 0)
            pause_us(200);
    }
    return unused;
}

static void second_enqueues(void)
{
    begin(stream);
    pthread_t second = meanwhile(enqueue);
    capture_some(stream, 10, 200);
    CHECK(pthread_join(second, NULL));
    end(stream, 10);
}

// Creates and uses a stream while another thread captures, as thread pools do.
static void *make_streams(void *unused)
{
    start_second();
    for (int left = 5; left > 0; left--) {
        CUstream late = NULL;
        if (LOGGED(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING)) != CUDA_SUCCESS)
            continue;
        launch_on(outside, late, &launches);
        launch_on(outside, CU_STREAM_PER_THREAD, &launches);
    }
    return unused;
}

static void second_makes(void)
{
    begin(stream);
    pthread_t second = meanwhile(make_streams);
    CHECK(pthread_join(second, NULL));
    capture_some(stream, 10, 0);
    end(stream, 10);
}

static void wait_and_allocate(void)
{
    for (int left = 20; left > 0; left--) {
        CUdeviceptr block = 0;
        launch_on(outside, own_stream, &launches);
        LOGGED(cuEventRecord(fork_event, own_stream));
        LOGGED(left % 2 ? cuEventSynchronize(fork_event) : cuStreamSynchronize(own_stream));
        LOGGED(cuStreamQuery(own_stream));
        LOGGED(cuEventQuery(fork_event));
        if (LOGGED(cuMemAlloc(&block, BYTES)) == CUDA_SUCCESS)
            LOGGED(cuMemFree(block));
    }
}

// Does more than that: harmless beside captures of other modes, but ends one of mode GLOBAL.
static void *wait_in_own_mode(void *unused)
{
    start_second();
    wait_and_allocate();
    return unused;
}

static void second_waits(void)
{
    bool breaks = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    begin(stream);
    pthread_t second = meanwhile(wait_in_own_mode);
    if (breaks)
        CHECK(pthread_join(second, NULL));
    capture_some(stream, 10, 200);
    if (!breaks)
        CHECK(pthread_join(second, NULL));
    end(stream, 10);
}

static void *wait_relaxed(void *unused)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    start_second();
    LOGGED(cuThreadExchangeStreamCaptureMode(&relaxed));
    wait_and_allocate();
    LOGGED(cuThreadExchangeStreamCaptureMode(&relaxed));
    log_result("mode", relaxed);
    return unused;
}

static void second_waits_relaxed(void)
{
    begin(stream);
    pthread_t second = meanwhile(wait_relaxed);
    capture_some(stream, 10, 200);
    CHECK(pthread_join(second, NULL));
    end(stream, 10);
}

// The other thread breaks a GLOBAL capture, and no other.
static void *allocate_unsafely(void *unused)
{
    start_second();
    CUdeviceptr block = 0;
    if (LOGGED(cuMemAlloc(&block, BYTES)) == CUDA_SUCCESS)
        LOGGED(cuMemFree(block));
    launch_on(outside, own_stream, &launches);
    return unused;
}

static void second_breaks(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    pthread_t second = meanwhile(allocate_unsafely);
    CHECK(pthread_join(second, NULL));
    capture_some(stream, 2, 100);
    end(stream, 4);
}

static pthread_barrier_t both;

static void *capture_too(void *unused)
{
    start_second();
    begin(fork_stream);
    pthread_barrier_wait(&both);
    capture_some(fork_stream, 10, 100);
    launch_on(outside, own_stream, &launches);
    CUgraph graph = finish(fork_stream);
    // Runs a graph when no capture is active that waiting for it could disturb.
    pthread_barrier_wait(&both);
    run_graph(graph, fork_stream, 10);
    return unused;
}

static void second_captures(void)
{
    pthread_t second = meanwhile(capture_too);
    begin(stream);
    pthread_barrier_wait(&both);
    capture_some(stream, 10, 100);
    CUgraph graph = finish(stream);
    pthread_barrier_wait(&both);
    run_graph(graph, stream, 10);
    CHECK(pthread_join(second, NULL));
}

static void *go_on(void *unused)
{
    start_second();
    capture_some(stream, 5, 100);
    launch_on(outside, own_stream, &launches);
    return unused;
}

static void *go_on_and_end(void *unused)
{
    go_on(unused);
    end(stream, 8);
    return unused;
}

// The capture is begun in one thread and continued in another.
static void second_goes_on(void)
{
    begin(stream);
    capture_some(stream, 3, 0);
    pthread_t second = meanwhile(go_on);
    CHECK(pthread_join(second, NULL));
    end(stream, 8);
}

// The capture ends in the other thread, which only mode RELAXED allows: in other modes the first thread ends it after
// all.
static void second_ends(void)
{
    CUgraph graph = NULL;
    begin(stream);
    capture_some(stream, 3, 0);
    pthread_t second = meanwhile(go_on_and_end);
    CHECK(pthread_join(second, NULL));
    LOGGED(cuStreamEndCapture(stream, &graph));
    launch_on(outside, stream, &launches);
    if (graph != NULL)
        LOGGED(cuGraphDestroy(graph));
}

static const struct {
    const char *name;
    void (*run)(void);
} arrangements[] = {
    {"alone", alone},
    {"per_thread_default", per_thread_default},
    {"fork_and_join", fork_and_join},
    {"unjoined", unjoined},
    {"to_graph", to_graph},
    {"legacy_use", legacy_use},
    {"invalidated", invalidated},
    {"batch_refused", batch_refused},
    {"pending_work", pending_work},
    {"first_use", first_use},
    {"made_meanwhile", made_meanwhile},
    {"second_enqueues", second_enqueues},
    {"second_makes", second_makes},
    {"second_waits", second_waits},
    {"second_waits_relaxed", second_waits_relaxed},
    {"second_breaks", second_breaks},
    {"second_captures", second_captures},
    {"second_goes_on", second_goes_on},
    {"second_ends", second_ends},
};

int main(int argc, char **argv)
{
    static const char *const modes[] = {"global", "thread", "relaxed"};
    REQUIRE(argc == 3);
    while (strcmp(modes[mode], argv[1]) != 0)
        REQUIRE(++mode < 3);
    size_t at = 0;
    while (strcmp(arrangements[at].name, argv[2]) != 0)
        REQUIRE(++at < sizeof arrangements / sizeof *arrangements);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(pthread_barrier_init(&both, NULL, 2));
    inside = load_kernel("inside_2us");
    outside = load_kernel("outside_4us");
    deep = load_kernel("deep_60us");
    stream = new_stream();
    fork_stream = new_stream();
    own_stream = new_stream();
    CHECK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemHostAlloc(&host, BYTES, 0));
    arrangements[at].run();
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"capture_matrix\",\"launches\":%ld,\"captured\":%ld,\"in_graphs\":%ld,\"graph_launches\":%ld,"
           "\"calls\":{\"first\":[%s],\"second\":[%s]}}\n",
           launches, captured, in_graphs, graph_launches, logs[FIRST], logs[SECOND]);
    return 0;
}
