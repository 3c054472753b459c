// Ends a context, or the process, while work is on the GPU. Arguments: WAY [gated].
//
//   destroy, reset, release, device-reset   that call, which waits for the work, and then another round
//   compiling                               destroy, while another thread compiles a module and holds the driver's lock
//   library                                 the runtime uses the context, and a library retains and releases it: no end
//   exit, _exit                             the process ends with work pending
//   after-exit                              calls from an exit handler that runs after the driver's own
//
// With `gated` the last launches wait for a value that is never written: the call is made by a thread that blocks in it
// for good, and the program ends nevertheless. An alarm ends it after 20 s with exit code 98. Prints the number of
// launches.
// link: -l:libcuda.so.1 -l:libcudart.so.12
#include "driver.h"

#include <signal.h>

enum { ROUNDS = 3, WATCHDOG_SECONDS = 20, EXIT_STUCK = 98 };

int cudaDeviceReset(void);
int cudaFree(void *);

static const char *way;
static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static bool called_after_exit;
static long launched;

static void stuck(int signal)
{
    (void)signal;
    static const char text[] = "teardown: stuck\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_FAILED_CALL);
    _exit(EXIT_STUCK);
}

static bool is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

// Loading takes as long as SIMCUDA_HOST_COST says, and the driver's lock is held for as long.
static void *compile(void *unused)
{
    CUcontext own;
    CHECK(cuCtxCreate(&own, 0, 0));
    load_kernel("other_1us");
    CHECK(cuCtxDestroy(own));
    return unused;
}

static void begin(void)
{
    if (is_way("destroy") || is_way("compiling"))
        CHECK(cuCtxCreate(&context, 0, 0));
    else if (is_way("library") && cudaFree(NULL) == 0)
        CHECK(cuCtxGetCurrent(&context));
    else
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    kernel = load_kernel("pending_100us");
    stream = new_stream();
}

// 40 launches, which fit into what a stream may hold and be timed.
static void work(void)
{
    for (int n = 0; n < 40; n++, launched++)
        launch(kernel, stream);
}

// Returns CUDA_ERROR_DEINITIALIZED if the process has ended before.
static CUresult end(void)
{
    if (is_way("destroy") || is_way("compiling"))
        return cuCtxDestroy(context);
    if (is_way("reset"))
        return cuDevicePrimaryCtxReset(0);
    if (is_way("device-reset"))
        return (CUresult)cudaDeviceReset(); // cudaErrorCudartUnloading has the same number
    if (is_way("library"))
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    if (is_way("release") || is_way("library"))
        return cuDevicePrimaryCtxRelease(0);
    return CUDA_SUCCESS;
}

// The id of the thread that makes the call.
static atomic_int ending;
static atomic_bool is_over;

static void *end_on_thread(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    ending = (int)thread_id();
    CUresult ended = end();
    REQUIRE(is_over || ended == CUDA_SUCCESS);
    return nothing;
}

// Waits until the thread blocks in its call: it has slept for 0.1 s. On a busy machine it comes late.
static void wait_until_it_blocks(void)
{
    char path[64], state;
    while (ending == 0)
        pause_us(1000);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", ending);
    for (int slept = 0; slept < 100; slept = state == 'S' ? slept + 1 : 0) {
        FILE *file = fopen(path, "r");
        REQUIRE(file != NULL && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        pause_us(1000);
    }
}

static void print_done(void)
{
    printf("{\"program\":\"teardown\",\"pid\":%d,\"launches\":%ld}\n", (int)getpid(), launched);
    REQUIRE(fflush(stdout) == 0);
}

static void after_exit(void)
{
    if (!called_after_exit)
        return;
    void *arguments[] = {&launched};
    REQUIRE(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == CUDA_ERROR_DEINITIALIZED);
    REQUIRE(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_DEINITIALIZED);
}

static void gated(void)
{
    volatile uint32_t *word;
    CUdeviceptr word_on_device;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&word_on_device, (void *)word, 0));
    *word = 0;
    work();
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamWaitValue32(stream, word_on_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    work();
    if (is_way("exit") || is_way("_exit") || is_way("after-exit"))
        return;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_on_thread, NULL));
    wait_until_it_blocks();
    pause_us(300000);
    is_over = true;
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 2);
    way = argv[1];
    signal(SIGALRM, stuck);
    alarm(WATCHDOG_SECONDS);
    REQUIRE(atexit(after_exit) == 0);
    CHECK(cuInit(0));
    bool is_gated = argc > 2 && strcmp(argv[2], "gated") == 0;
    for (int round = 0; round < (is_gated ? 1 : ROUNDS); round++) {
        begin();
        if (is_gated)
            gated();
        else if (is_way("compiling")) {
            pthread_t compiler;
            work();
            CHECK(pthread_create(&compiler, NULL, compile, NULL));
            pause_us(20000);
            CHECK(end());
            CHECK(pthread_join(compiler, NULL));
        } else {
            work();
            CHECK(end());
        }
    }
    print_done();
    called_after_exit = is_way("after-exit");
    if (is_way("_exit"))
        _exit(0);
    return 0;
}
