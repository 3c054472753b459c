// A program that lives long: for SECONDS (second argument), threads come, work in a context of their own round, and go, the
// same for the same SEED (first argument) but for how they interleave. Each round gives back all that it took, also after
// calls that failed, and every eighth one starts a child and kills it. After each round it prints a line
// `account {…}`: what the simulated driver still has, and what the process does; at the end what it did.
// link: -l:libcuda.so.1
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "driver.h"

enum { KERNELS = 4, THREADS = 3, STEPS = 30, BLOCK_BYTES = 64 << 10, ALIVE = 6 };

// The simulated driver's own account (sim/cuda/src/api/init.rs): contexts, streams, events, modules, graphs, executable graphs.
int simcudaAlive(uint64_t counts[ALIVE]);

static const char *const kernel_names[KERNELS] = {"short_2us", "middle_20us", "long_100us", "captured_5us"};
static const char *const alive_names[ALIVE] = {"contexts", "streams", "events", "modules", "graphs", "executables"};
static CUfunction kernels[KERNELS];
static CUcontext context;
static uint64_t seed, round_number;
static atomic_long launches, captured, in_graphs, graph_launches, transfers, allocations, frees;

static uint64_t next_random(uint64_t *state)
{
    // splitmix64
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct worker {
    uint64_t random;
    CUstream stream;
    CUevent event;
    CUdeviceptr block;
    char *host;
};

static void step_launch(struct worker *me)
{
    for (uint64_t left = 1 + next_random(&me->random) % 12; left > 0; left--) {
        launch(kernels[next_random(&me->random) % 3], me->stream);
        atomic_fetch_add(&launches, 1);
    }
}

static void step_copy(struct worker *me)
{
    CHECK(cuMemcpyHtoDAsync(me->block, me->host, BLOCK_BYTES, me->stream));
    CHECK(cuMemsetD8Async(me->block, 1, BLOCK_BYTES / 2, me->stream));
    CHECK(cuMemcpyDtoH(me->host, me->block, 1024));
    atomic_fetch_add(&transfers, 3);
}

static void step_memory(struct worker *me)
{
    CUdeviceptr own, pooled;
    CHECK(cuMemAlloc(&own, 4096));
    CHECK(cuMemAllocAsync(&pooled, 8192, me->stream));
    CHECK(cuMemFreeAsync(pooled, me->stream));
    CHECK(cuMemFree(own));
    atomic_fetch_add(&allocations, 2);
    atomic_fetch_add(&frees, 2);
}

static void step_wait(struct worker *me)
{
    CHECK(cuEventRecord(me->event, me->stream));
    CUresult result = cuEventQuery(me->event);
    REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
    CHECK(cuEventSynchronize(me->event));
}

// A stream that ends with work on it.
static void step_stream(struct worker *me)
{
    CUstream stream = new_stream();
    launch(kernels[2], stream);
    atomic_fetch_add(&launches, 1);
    CHECK(cuStreamWaitEvent(me->stream, me->event, 0));
    CHECK(cuStreamDestroy(stream));
}

static void step_graph(struct worker *me)
{
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuStreamBeginCapture(me->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int n = 0; n < 3; n++)
        launch(kernels[3], me->stream);
    CHECK(cuStreamEndCapture(me->stream, &graph));
    CHECK(cuGraphInstantiate(&executable, graph, 0));
    for (int n = 0; n < 2; n++)
        CHECK(cuGraphLaunch(executable, me->stream));
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
    atomic_fetch_add(&captured, 3);
    atomic_fetch_add(&in_graphs, 6);
    atomic_fetch_add(&graph_launches, 2);
}

// Calls that fail, and give nothing.
static void step_fail(struct worker *me)
{
    CUdeviceptr none = 0;
    REQUIRE(cuMemAlloc(&none, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(cuMemFree(1) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuLaunchKernel(kernels[0], 0, 1, 1, 1, 1, 1, 0, me->stream, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuStreamEndCapture(me->stream, &(CUgraph){NULL}) == CUDA_ERROR_ILLEGAL_STATE);
}

static void (*const steps[])(struct worker *) = {step_launch, step_launch, step_copy, step_memory,
                                                 step_wait,   step_stream, step_graph, step_fail};

static void *work(void *index)
{
    struct worker me = {.random = seed * 1000003u + round_number * 17u + (uint64_t)(intptr_t)index};
    CHECK(cuCtxSetCurrent(context));
    me.stream = new_stream();
    CHECK(cuEventCreate(&me.event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&me.block, BLOCK_BYTES));
    REQUIRE((me.host = calloc(1, BLOCK_BYTES)) != NULL);
    for (int step = 0; step < STEPS; step++) {
        steps[next_random(&me.random) % (sizeof steps / sizeof *steps)](&me);
        pause_us((unsigned)(next_random(&me.random) % 1000));
    }
    CHECK(cuStreamSynchronize(me.stream));
    CHECK(cuMemFree(me.block));
    CHECK(cuEventDestroy(me.event));
    CHECK(cuStreamDestroy(me.stream));
    free(me.host);
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&frees, 1);
    return NULL;
}

static void run_round(CUdevice device, bool primary)
{
    CUmodule module;
    if (primary)
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
    else
        CHECK(cuCtxCreate(&context, 0, device));
    CHECK(cuCtxSetCurrent(context));
    char *ptx = ptx_module(kernel_names, KERNELS);
    CHECK(cuModuleLoadData(&module, ptx));
    free(ptx);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        CHECK(cuModuleGetFunction(&kernels[kernel], module, kernel_names[kernel]));
    run_threads(1 + (int)(round_number % THREADS), work);
    CHECK(cuCtxSynchronize());
    CHECK(cuModuleUnload(module));
    if (primary)
        CHECK(cuDevicePrimaryCtxRelease(device));
    else
        CHECK(cuCtxDestroy(context));
}

static void kill_a_child(void)
{
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    int status;
    REQUIRE(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
}

static long entries(const char *folder)
{
    DIR *open = opendir(folder);
    REQUIRE(open != NULL);
    long count = 0;
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

static void print_account(void)
{
    uint64_t alive[ALIVE];
    long pages = 0;
    CHECK(simcudaAlive(alive));
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    printf("account {\"rss_bytes\":%ld,\"fds\":%ld,\"threads\":%ld", pages * sysconf(_SC_PAGESIZE),
           entries("/proc/self/fd"), entries("/proc/self/task"));
    for (int kind = 0; kind < ALIVE; kind++)
        printf(",\"%s\":%" PRIu64, alive_names[kind], alive[kind]);
    printf("}\n");
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    seed = strtoull(argv[1], NULL, 10);
    uint64_t end = now_ns() + strtoull(argv[2], NULL, 10) * 1000000000u;
    CUdevice device;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    for (; now_ns() < end; round_number++) {
        run_round(device, round_number % 2 == 0);
        if (round_number % 8 == 7)
            kill_a_child();
        print_account();
    }
    printf("{\"program\":\"long_life\",\"rounds\":%" PRIu64 ",\"launches\":%ld,\"captured\":%ld,\"in_graphs\":%ld,"
           "\"graph_launches\":%ld,\"transfers\":%ld,\"allocations\":%ld,\"frees\":%ld}\n",
           round_number, launches, captured, in_graphs, graph_launches, transfers, allocations, frees);
    return 0;
}
