// A training loop in several shapes. Arguments: the shape, and the number of steps (default 60). Prints how many steps
// there were.
//
//   constant      six kernels, a copy of the loss, a wait
//   warm-up       the same after other launches; the first three steps are long
//   jitter        the host pauses for a random time in each step
//   accumulation  four micro-batches and an update
//   evaluation    ten kernels of an evaluation after every tenth step
//   streams       a second stream works beside the first
//   threads       two threads, each with a loop of its own on its own stream; the first one launches more
//   random        launches in random order
//   nvtx          each step is in a range ProfilerStep#N, with two phases
//   graph         a graph is launched in each step
//   deep          a loop without any wait; the host is far ahead
//   slow-gpu      a quarter of the steps in a row, from the middle on, have kernels that take half as long again
//   slow-host     in as many the host pauses
//   stalls        the host pauses before the loop and in each step; in every tenth step it allocates memory instead
// link: -l:libcuda.so.1 -lnvtxuser -lpthread
#include "driver.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

enum { KERNELS = 6 };

static CUfunction parts[KERNELS], clocked[2], update, evaluate, start;
static CUstream one, two;
static CUdeviceptr loss;
static uint64_t paused, allocated;
static float *read_loss;
static uint64_t state = 88172645463325252u;

static unsigned below(unsigned bound)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state % bound);
}

static void compute(CUstream stream)
{
    for (int part = 0; part < KERNELS; part++)
        launch(parts[part], stream);
}

static void step(CUstream stream)
{
    compute(stream);
    CHECK(cuMemcpyDtoHAsync(read_loss, loss, sizeof *read_loss, stream));
    CHECK(cuStreamSynchronize(stream));
}

// A step of kernels that take as long as they do on a slower GPU, by this many percent.
static void step_slower_by(uint64_t percent)
{
    static const uint64_t lengths[] = {200000, 300000};
    for (int part = 0; part < 2; part++) {
        uint64_t length = lengths[part] + lengths[part] * percent / 100;
        void *arguments[] = {&length};
        CHECK(cuLaunchKernel(clocked[part], 64, 1, 1, 128, 1, 1, 0, one, arguments, NULL));
    }
    CHECK(cuStreamSynchronize(one));
}

// What keeps the GPU of step `n` idle.
static void stall(int n)
{
    CUdeviceptr block;
    uint64_t began = now_ns();
    if (n % 10 == 7) {
        CHECK(cuMemAlloc(&block, 256));
        allocated += now_ns() - began;
    } else {
        pause_us(1000);
        paused += now_ns() - began;
    }
}

static int steps;
static void *second(void *none)
{
    CHECK(cuCtxSetCurrent(none));
    for (int n = 0; n < steps * 3 / 4; n++) {
        launch(update, two);
        pause_us(below(200));
        launch(evaluate, two);
        CHECK(cuStreamSynchronize(two));
    }
    return NULL;
}

static void loop(const char *shape)
{
    bool is_deep = strcmp(shape, "deep") == 0;
    CUgraphExec graph = NULL;
    if (strcmp(shape, "graph") == 0) {
        CUgraph captured;
        CHECK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        compute(one);
        CHECK(cuStreamEndCapture(one, &captured));
        CHECK(cuGraphInstantiateWithFlags(&graph, captured, 0));
    }
    if (strcmp(shape, "warm-up") == 0)
        for (int n = 0; n < 40; n++)
            launch(n % 3 ? start : parts[below(KERNELS)], one);
    if (strcmp(shape, "stalls") == 0) {
        launch(start, one);
        CHECK(cuStreamSynchronize(one));
        pause_us(300000);
    }
    for (int n = 0; n < steps; n++) {
        if (strcmp(shape, "random") == 0) {
            for (int part = 0; part < KERNELS; part++)
                launch(parts[below(KERNELS)], one);
        } else if (strcmp(shape, "accumulation") == 0) {
            for (int micro = 0; micro < 4; micro++)
                step(one);
            launch(update, one);
        } else if (strcmp(shape, "evaluation") == 0) {
            step(one);
            for (int batch = 0; n % 10 == 9 && batch < 10; batch++)
                launch(batch % 2 ? evaluate : parts[0], one);
        } else if (strcmp(shape, "streams") == 0) {
            for (int part = 0; part < KERNELS; part++) {
                launch(parts[part], one);
                launch(update, two);
            }
            CHECK(cuStreamSynchronize(one));
        } else if (strcmp(shape, "nvtx") == 0) {
            char name[40];
            snprintf(name, sizeof name, "ProfilerStep#%d", n);
            nvtxRangePushA(name);
            nvtxRangePushA("forward");
            for (unsigned part = 0; part < 1 + below(KERNELS); part++)
                launch(parts[part], one);
            nvtxRangePop();
            nvtxRangePushA("backward");
            launch(update, one);
            nvtxRangePop();
            CHECK(cuStreamSynchronize(one));
            nvtxRangePop();
        } else if (graph != NULL) {
            CHECK(cuGraphLaunch(graph, one));
            CHECK(cuStreamSynchronize(one));
        } else if (strcmp(shape, "stalls") == 0) {
            step(one);
            stall(n);
        } else if (strncmp(shape, "slow-", 5) == 0) {
            bool is_slow = n >= steps / 2 && n < steps / 2 + steps / 4;
            if (is_slow && strcmp(shape, "slow-host") == 0)
                pause_us(250);
            step_slower_by(is_slow && strcmp(shape, "slow-gpu") == 0 ? 50 : 0);
        } else if (is_deep) {
            compute(one);
        } else {
            if (strcmp(shape, "jitter") == 0)
                pause_us(below(800));
            if (strcmp(shape, "warm-up") == 0 && n < 3)
                for (int tuned = 0; tuned < 15; tuned++)
                    launch(start, one);
            step(one);
        }
    }
    CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    const char *shape = argc > 1 ? argv[1] : "constant";
    steps = argc > 2 ? atoi(argv[2]) : 60;
    start_cuda();
    static const char *const names[KERNELS] = {"embed_40us", "attend_60us", "gelu_20us", "loss_10us", "backward_80us", "reduce_50us"};
    for (int part = 0; part < KERNELS; part++)
        parts[part] = load_kernel(names[part]);
    clocked[0] = load_kernel("matmul_argns"), clocked[1] = load_kernel("norm_argns");
    update = load_kernel("update_30us"), evaluate = load_kernel("evaluate_90us"), start = load_kernel("tune_200us");
    one = new_stream(), two = new_stream();
    CHECK(cuMemAlloc(&loss, 256));
    CHECK(cuMemHostAlloc((void **)&read_loss, sizeof *read_loss, 0));
    pthread_t thread;
    bool has_threads = strcmp(shape, "threads") == 0;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    if (has_threads)
        REQUIRE(pthread_create(&thread, NULL, second, context) == 0);
    loop(shape);
    if (has_threads)
        REQUIRE(pthread_join(thread, NULL) == 0);
    printf("{\"program\":\"steps\",\"shape\":\"%s\",\"steps\":%d,\"paused_ns\":%" PRIu64 ",\"allocated_ns\":%" PRIu64 "}\n",
           shape, strcmp(shape, "random") ? steps : 0, paused, allocated);
    return 0;
}
