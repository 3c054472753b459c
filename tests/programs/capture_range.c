// Runs work before, inside and after ranges that are marked in the given way:
//
//   capture_range driver|runtime|push|start|domain|before|fork|threads|nothing OUTSIDE [RANGES]
//
// OUTSIDE launches run before each range and after the last one, with allocations and frees; a kernel of 20 ms on a
// stream of its own starts just before each range. Inside are copies, memsets, allocations and INSIDE launches, and the
// range ends when all of that has completed. `before` pushes its range before the first CUDA call, and so does `fork`,
// which then forks and continues as two processes. `threads` has three threads with overlapping ranges. `nothing` marks
// no range. Prints the time that each range took, measured inside it.
// link: -l:libcuda.so.1 -l:libcudart.so.12
#include "driver.h"

#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>

enum { INSIDE = 100, COPIES = 10, SETS = 5, KEPT = 8 << 20, MORE = 4 << 20, LATER = 64 << 20, THREADS = 3 };

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
int cudaProfilerStart(void);
int cudaProfilerStop(void);

static const char *how;
static CUcontext context;
static CUfunction outside_kernel, inside_kernel, long_kernel;
static CUstream stream, other;
static nvtxRangeId_t started;
static nvtxDomainHandle_t domain;

static bool is(const char *name)
{
    return strcmp(how, name) == 0;
}

static uint64_t raw_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void push_in_domain(const char *text)
{
    nvtxEventAttributes_t given = {0};
    given.version = NVTX_VERSION;
    given.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    given.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    given.message.registered = nvtxDomainRegisterStringA(domain, text);
    nvtxDomainRangePushEx(domain, &given);
}

static void begin(void)
{
    if (is("driver"))
        CHECK(cuProfilerStart());
    if (is("runtime"))
        CHECK(cudaProfilerStart());
    nvtxRangePushA("not it");
    if (is("push"))
        nvtxRangePushA("it");
    if (is("start"))
        started = nvtxRangeStartA("it");
    if (is("domain"))
        push_in_domain("it");
}

static void end(void)
{
    if (is("domain"))
        nvtxDomainRangePop(domain);
    if (is("start"))
        nvtxRangeEnd(started);
    if (is("push"))
        nvtxRangePop();
    nvtxRangePop();
    if (is("runtime"))
        CHECK(cudaProfilerStop());
    if (is("driver"))
        CHECK(cuProfilerStop());
}

static void outside(long launches)
{
    for (long launched = 0; launched < launches; launched++) {
        launch(outside_kernel, stream);
        if (launched % 100 == 99)
            CHECK(cuStreamSynchronize(stream));
    }
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, LATER));
    CHECK(cuMemsetD8Async(block, 0, 4096, stream));
    CHECK(cuMemFree(block));
    CHECK(cuStreamSynchronize(stream));
}

static void inside(void)
{
    static char bytes[4096];
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, MORE));
    for (int copied = 0; copied < COPIES; copied++)
        CHECK(cuMemcpyHtoDAsync(block, bytes, sizeof bytes, stream));
    for (int set = 0; set < SETS; set++)
        CHECK(cuMemsetD8Async(block, 1, 4096, stream));
    for (int launched = 0; launched < INSIDE; launched++) {
        launch(inside_kernel, stream);
        if (launched % 20 == 19)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemFree(block));
    CHECK(cuCtxSynchronize());
}

static void *in_thread(void *index)
{
    CHECK(cuCtxSetCurrent(context));
    pause_us(2000 * (unsigned)(intptr_t)index);
    nvtxRangePushA("it");
    for (int launched = 0; launched < INSIDE; launched++) {
        launch(inside_kernel, stream);
        pause_us(100);
    }
    // The first thread ends with its range open.
    if (index != 0)
        nvtxRangePop();
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3 || argc == 4);
    how = argv[1];
    long launches = atol(argv[2]), ranges = argc == 4 ? atol(argv[3]) : 1;
    domain = nvtxDomainCreateA("a domain");
    bool is_early = is("before") || is("fork");
    if (is_early)
        nvtxRangePushA("it");
    pid_t child = is("fork") ? fork() : 0;
    REQUIRE(child >= 0);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    outside_kernel = load_kernel("outside_2us");
    inside_kernel = load_kernel("inside_10us");
    long_kernel = load_kernel("long_20ms");
    stream = new_stream();
    other = new_stream();
    CUdeviceptr kept;
    CHECK(cuMemAlloc(&kept, KEPT));
    printf("{\"program\":\"capture_range\",\"pid\":%d,\"ranges_ns\":[", (int)getpid());
    for (long range = 0; range < ranges; range++) {
        outside(launches);
        launch(long_kernel, other);
        begin();
        uint64_t from = raw_ns();
        if (is("threads"))
            run_threads(THREADS, in_thread);
        else
            inside();
        uint64_t to = raw_ns();
        end();
        printf("%s%" PRIu64, range == 0 ? "" : ",", to - from);
        CHECK(cuCtxSynchronize());
    }
    if (is_early)
        nvtxRangePop();
    outside(launches);
    CHECK(cuMemFree(kept));
    CHECK(cuCtxSynchronize());
    printf("]}\n");
    int status = 0;
    REQUIRE(child == 0 || (waitpid(child, &status, 0) == child && status == 0));
    return 0;
}
