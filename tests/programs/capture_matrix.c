// One capture in one arrangement of threads and streams, and what every call returned:
//
//   capture_matrix MODE ARRANGEMENT     MODE global, thread or relaxed; ARRANGEMENT a name of the table at the end
//
// No call's result is checked, all are told: a tracer must not change one. Prints them thread by thread, and exactly what
// was done. What would leave the capture broken where the mode or the driver forbids it is part of some arrangements.
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

static void tell(const char *call, long result)
{
    char *log = logs[me];
    size_t used = strlen(log);
    REQUIRE(used + 100 < LOG_BYTES);
    size_t name = strcspn(call, "(");
    snprintf(log + used, LOG_BYTES - used, "%s\"%.*s %ld\"", used ? "," : "", (int)name, call, result);
}

static CUresult told(const char *call, CUresult result)
{
    tell(call, result);
    return result;
}

#define TELL(call) told(#call, call)

static CUresult launch_on(CUfunction kernel, CUstream on, atomic_long *count)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUresult result = TELL(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, on, arguments, NULL));
    if (result == CUDA_SUCCESS)
        atomic_fetch_add(count, 1);
    return result;
}

// ---- pieces of the arrangements ----

static void begin(CUstream on)
{
    TELL(cuStreamBeginCapture(on, mode));
}

static void capture_some(CUstream on, int count, unsigned pause)
{
    for (int left = count; left > 0; left--) {
        launch_on(inside, on, &captured);
        if (pause > 0)
            pause_us(pause);
    }
    TELL(cuMemcpyHtoDAsync(device, host, BYTES, on));
    TELL(cuMemsetD8Async(device, 7, BYTES, on));
}

// Ends the capture: its graph, if that went well.
static CUgraph finish(CUstream on)
{
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    TELL(cuStreamIsCapturing(on, &status));
    tell("status", status);
    TELL(cuStreamEndCapture(on, &graph));
    tell("graph", graph != NULL);
    return graph;
}

static void run_graph(CUgraph graph, CUstream on, long kernels)
{
    CUgraphExec executable;
    size_t nodes = 0;
    if (graph == NULL)
        return;
    TELL(cuGraphGetNodes(graph, NULL, &nodes));
    tell("nodes", (long)nodes);
    if (TELL(cuGraphInstantiate(&executable, graph, 0)) != CUDA_SUCCESS)
        return;
    for (int left = GRAPH_LAUNCHES; left > 0; left--)
        if (TELL(cuGraphLaunch(executable, on)) == CUDA_SUCCESS) {
            atomic_fetch_add(&graph_launches, 1);
            atomic_fetch_add(&in_graphs, kernels);
        }
    TELL(cuStreamSynchronize(on));
    TELL(cuGraphExecDestroy(executable));
    TELL(cuGraphDestroy(graph));
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
    TELL(cuMemcpyHtoDAsync(device, host, BYTES, own_stream));
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
    TELL(cuEventRecord(fork_event, stream));
    TELL(cuStreamWaitEvent(fork_stream, fork_event, 0));
    capture_some(fork_stream, 3, 100);
    launch_on(outside, own_stream, &launches);
    capture_some(stream, 3, 100);
    TELL(cuEventRecord(join_event, fork_stream));
    TELL(cuStreamWaitEvent(stream, join_event, 0));
    capture_some(stream, 1, 0);
    end(stream, 9);
    // The stream that joined is free again.
    launch_on(outside, fork_stream, &launches);
}

// Ends with work on a stream that did not come back: the capture fails.
static void unjoined(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    TELL(cuEventRecord(fork_event, stream));
    TELL(cuStreamWaitEvent(fork_stream, fork_event, 0));
    capture_some(fork_stream, 2, 100);
    end(stream, 4);
    launch_on(outside, fork_stream, &launches);
}

static void to_graph(void)
{
    CUgraph graph;
    CUgraphExec executable;
    size_t nodes = 0;
    TELL(cuGraphCreate(&graph, 0));
    for (int turn = 0; turn < 2; turn++) {
        CUgraph same = NULL;
        TELL(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode));
        capture_some(stream, 4, 50);
        launch_on(outside, own_stream, &launches);
        TELL(cuStreamEndCapture(stream, &same));
        tell("same", same == graph);
    }
    TELL(cuGraphGetNodes(graph, NULL, &nodes));
    tell("nodes", (long)nodes);
    TELL(cuGraphInstantiate(&executable, graph, 0));
    if (TELL(cuGraphLaunch(executable, stream)) == CUDA_SUCCESS) {
        atomic_fetch_add(&graph_launches, 1);
        atomic_fetch_add(&in_graphs, 8);
    }
    TELL(cuStreamSynchronize(stream));
    TELL(cuGraphExecDestroy(executable));
    TELL(cuGraphDestroy(graph));
}

// The legacy stream would have to wait for the blocking stream that captures.
static void legacy_use(void)
{
    CUstream blocking;
    CUstreamCaptureStatus status;
    TELL(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    launch_on(outside, NULL, &launches);
    begin(blocking);
    capture_some(blocking, 3, 100);
    TELL(cuStreamIsCapturing(NULL, &status));
    launch_on(inside, blocking, &captured);
    // From here on it is invalid.
    launch_on(outside, NULL, &launches);
    launch_on(inside, blocking, &captured);
    TELL(cuMemcpyHtoDAsync(device, host, BYTES, NULL));
    end(blocking, 4);
    launch_on(outside, NULL, &launches);
    begin(blocking);
    capture_some(blocking, 2, 0);
    end(blocking, 2);
    TELL(cuStreamDestroy(blocking));
}

static void invalidated(void)
{
    begin(stream);
    capture_some(stream, 2, 0);
    TELL(cuStreamSynchronize(stream));
    launch_on(inside, stream, &captured);
    launch_on(outside, own_stream, &launches);
    end(stream, 2);
    begin(stream);
    capture_some(stream, 2, 100);
    end(stream, 2);
}

// Work that is timed, on many streams: whoever reads the times has to ask for them while the capture lasts.
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
        TELL(cuStreamSynchronize(streams[at]));
}

// A context that nobody has seen anything of is used first while the capture lasts.
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
    TELL(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(context));
    TELL(cuCtxDestroy(another));
}

// Some streams come while the capture lasts: one becomes a part of it, one does not. Where the driver forbids to make them
// then, there are none.
static void made_meanwhile(void)
{
    CUstream joined = NULL, late = NULL;
    begin(stream);
    launch_on(inside, stream, &captured);
    TELL(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING));
    if (joined == NULL || late == NULL) {
        TELL(cuStreamEndCapture(stream, &(CUgraph){NULL}));
        return;
    }
    TELL(cuEventRecord(fork_event, stream));
    TELL(cuStreamWaitEvent(joined, fork_event, 0));
    for (int left = 5; left > 0; left--) {
        launch_on(inside, joined, &captured);
        launch_on(outside, late, &launches);
    }
    TELL(cuEventRecord(join_event, joined));
    TELL(cuStreamWaitEvent(stream, join_event, 0));
    end(stream, 6);
    launch_on(outside, joined, &launches);
    TELL(cuStreamDestroy(joined));
    TELL(cuStreamDestroy(late));
}

// ---- arrangements of two threads ----

// What every mode lets another thread do: enqueue.
static void *enqueue(void *unused)
{
    start_second();
    for (int left = 50; left > 0; left--) {
        launch_on(outside, own_stream, &launches);
        TELL(cuEventRecord(fork_event, own_stream));
        TELL(cuStreamWaitEvent(fork_stream, fork_event, 0));
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

// A stream is made and used while another thread captures, as a thread pool's are.
static void *make_streams(void *unused)
{
    start_second();
    for (int left = 5; left > 0; left--) {
        CUstream late = NULL;
        if (TELL(cuStreamCreate(&late, CU_STREAM_NON_BLOCKING)) != CUDA_SUCCESS)
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
        TELL(cuEventRecord(fork_event, own_stream));
        TELL(left % 2 ? cuEventSynchronize(fork_event) : cuStreamSynchronize(own_stream));
        TELL(cuStreamQuery(own_stream));
        TELL(cuEventQuery(fork_event));
        if (TELL(cuMemAlloc(&block, BYTES)) == CUDA_SUCCESS)
            TELL(cuMemFree(block));
    }
}

// More than that: harmless beside captures of other modes, and the end of one of mode GLOBAL.
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
    TELL(cuThreadExchangeStreamCaptureMode(&relaxed));
    wait_and_allocate();
    TELL(cuThreadExchangeStreamCaptureMode(&relaxed));
    tell("mode", relaxed);
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
    if (TELL(cuMemAlloc(&block, BYTES)) == CUDA_SUCCESS)
        TELL(cuMemFree(block));
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
    // A graph runs when neither capture is there to be disturbed by who waits for it.
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

// Begun here, gone on with there.
static void second_goes_on(void)
{
    begin(stream);
    capture_some(stream, 3, 0);
    pthread_t second = meanwhile(go_on);
    CHECK(pthread_join(second, NULL));
    end(stream, 8);
}

// Ended there, which only mode RELAXED allows: in the others the first thread ends it after all.
static void second_ends(void)
{
    CUgraph graph = NULL;
    begin(stream);
    capture_some(stream, 3, 0);
    pthread_t second = meanwhile(go_on_and_end);
    CHECK(pthread_join(second, NULL));
    TELL(cuStreamEndCapture(stream, &graph));
    launch_on(outside, stream, &launches);
    if (graph != NULL)
        TELL(cuGraphDestroy(graph));
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
