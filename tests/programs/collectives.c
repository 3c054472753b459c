// Runs kernels that look like communication kernels of data-parallel training:
//
//   collectives record|wait|next     beside compute; each is followed by an event that compute waits for, by a
//                                    synchronization, or by the next one
//   collectives graph                the same inside a CUDA graph, with an event after each launch
//   collectives deep                 on one stream with compute, hundreds of launches ahead of the GPU
//   collectives crossed [KERNEL]     two processes: in each, two communication kernels wait for those of the other
//                                    process, on two of 17 streams, launched in opposite orders: neither may delay
//                                    the other
//
// Beside compute each communication kernel takes 200 us, and each other kernel 50 us. Prints the number of
// communication kernels.
// link: -l:libcuda.so.1
#include "driver.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 50, STREAMS = 17, SECONDS = 60 };

static const char *const REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL_200us";

static CUgraphExec graph_of(CUfunction kernel, CUstream stream)
{
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(kernel, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return executable;
}

static void beside_compute(const char *behind)
{
    start_cuda();
    CUfunction reduce = load_kernel(REDUCE), compute = load_kernel("gemm_50us");
    CUstream communication = new_stream(), own = new_stream();
    CUgraphExec graph = strcmp(behind, "graph") == 0 ? graph_of(reduce, communication) : NULL;
    CUevent reduced;
    CHECK(cuEventCreate(&reduced, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        if (graph != NULL)
            CHECK(cuGraphLaunch(graph, communication));
        else
            launch(reduce, communication);
        if (graph != NULL || strcmp(behind, "record") == 0)
            CHECK(cuEventRecord(reduced, communication));
        for (int left = 3; left > 0; left--)
            launch(compute, own);
        if (strcmp(behind, "wait") == 0)
            CHECK(cuStreamSynchronize(communication));
        else if (strcmp(behind, "next") != 0)
            CHECK(cuStreamWaitEvent(own, reduced, 0));
        if (round % 10 == 9)
            CHECK(cuCtxSynchronize());
    }
    printf("{\"program\":\"collectives\",\"communication\":%d}\n", ROUNDS);
}

static void deep(void)
{
    start_cuda();
    CUfunction reduce = load_kernel(REDUCE), compute = load_kernel("gemm_50us");
    CUstream stream = new_stream();
    for (int round = 0; round < 4 * ROUNDS; round++) {
        for (int left = 20; left > 0; left--)
            launch(compute, stream);
        launch(reduce, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"collectives\",\"communication\":%d}\n", 4 * ROUNDS);
}

// Runs until the matching kernel of the other process does.
static void meet(CUfunction kernel, CUstream stream, atomic_uint *counter)
{
    uint64_t address = (uint64_t)(uintptr_t)counter, both = 2;
    void *arguments[] = {&address, &both};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

static void crossed(const char *kernel)
{
    atomic_uint *counters = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(counters != MAP_FAILED);
    pid_t child = fork();
    REQUIRE(child >= 0);
    alarm(SECONDS); // ends a program that hangs
    start_cuda();
    CUfunction reduce = load_kernel(kernel);
    CUstream streams[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        streams[k] = new_stream();
    for (int round = 0; round < 3; round++) {
        for (int k = 1; k < STREAMS; k++) {
            atomic_uint *one = counters++, *other = counters++;
            meet(reduce, streams[child ? 0 : k], child ? one : other);
            meet(reduce, streams[child ? k : 0], child ? other : one);
            CHECK(cuCtxSynchronize());
        }
    }
    printf("{\"program\":\"collectives\",\"communication\":%d}\n", 3 * 2 * (STREAMS - 1));
    REQUIRE(fflush(stdout) == 0);
    if (child == 0)
        _exit(0);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2 || argc == 3);
    if (strcmp(argv[1], "crossed") == 0)
        crossed(argc == 3 ? argv[2] : "ncclDevKernel_AllReduce_Sum_f32_RING_LL_meets");
    else if (strcmp(argv[1], "deep") == 0)
        deep();
    else
        beside_compute(argv[1]);
    return 0;
}
