// Keeps the GPU idle for one dominating cause, which the first argument names, in STEPS steps. Prints the ns that the
// host, or a host function, spent on that cause, and on the first launch.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 40, SLEEP_US = 3000, PARTS = 4, BYTES = 1 << 16 };

static CUfunction kernel;
static CUstream stream, other;
static CUevent event;
static CUdeviceptr memory;
static CUdeviceptr blocks[STEPS];
static int held;
static char *pageable;
static atomic_long spent;

// Adds the time of what follows to the cause's.
#define SPENT(...)                                                                                                     \
    do {                                                                                                               \
        uint64_t began_ = now_ns();                                                                                    \
        __VA_ARGS__;                                                                                                   \
        atomic_fetch_add(&spent, (long)(now_ns() - began_));                                                           \
    } while (0)

static void sleeps(void *unused)
{
    (void)unused;
    SPENT(pause_us(SLEEP_US));
}

// The host sleeps after each synchronization, like an input pipeline that is late.
static void outside_cuda(void)
{
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    SPENT(pause_us(SLEEP_US));
}

static __attribute__((noinline)) bool is_done(void)
{
    return cuEventQuery(event) == CUDA_SUCCESS;
}

// The host asks until the work is done, and goes on asking between the parts of what it does itself.
static void asking_on(void)
{
    launch(kernel, stream);
    CHECK(cuEventRecord(event, stream));
    while (!is_done())
        continue;
    for (int part = 0; part < PARTS; part++) {
        SPENT(pause_us(SLEEP_US / PARTS));
        REQUIRE(is_done());
    }
}

static void explicit_sync(void)
{
    launch(kernel, stream);
    SPENT(CHECK(cuStreamSynchronize(stream)));
}

static void allocating(void)
{
    CUdeviceptr block;
    launch(kernel, stream);
    SPENT(CHECK(cuMemAlloc(&block, BYTES)));
}

static void freeing(void)
{
    launch(kernel, stream);
    SPENT(CHECK(cuMemFree(blocks[--held])));
}

static void launching(void)
{
    SPENT(launch(kernel, stream));
}

static void loading(void)
{
    launch(kernel, stream);
    SPENT(load_kernel("late_5us"));
}

// A small blocking copy from pageable memory: most of it is the host's own time.
static void copying(void)
{
    launch(kernel, stream);
    SPENT(CHECK(cuMemcpyHtoD(memory, pageable, BYTES)));
}

// The host is ahead, and a stream waits for another one.
static void stream_wait(void)
{
    CHECK(cuLaunchHostFunc(other, sleeps, NULL));
    CHECK(cuEventRecord(event, other));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    launch(kernel, stream);
}

static void host_callback(void)
{
    CHECK(cuLaunchHostFunc(stream, sleeps, NULL));
    launch(kernel, stream);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*step)(void);
    } causes[] = {
        {"outside_cuda", outside_cuda}, {"explicit_sync", explicit_sync}, {"allocating", allocating},
        {"freeing", freeing},           {"launching", launching},         {"loading", loading},
        {"copying", copying},           {"stream_wait", stream_wait},     {"host_callback", host_callback},
        {"asking_on", asking_on},
    };
    start_cuda();
    kernel = load_kernel("step_5us");
    stream = new_stream();
    other = new_stream();
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&memory, BYTES));
    pageable = calloc(1, BYTES);
    REQUIRE(pageable != NULL);
    for (; held < STEPS; held++)
        CHECK(cuMemAlloc(&blocks[held], BYTES));
    uint64_t before_first = now_ns();
    launch(kernel, stream);
    uint64_t first = now_ns() - before_first;
    CHECK(cuCtxSynchronize());
    for (size_t cause = 0; cause < sizeof causes / sizeof *causes; cause++) {
        if (argc > 1 && strcmp(argv[1], causes[cause].name) == 0) {
            for (int step = 0; step < STEPS; step++)
                causes[cause].step();
            CHECK(cuCtxSynchronize());
            printf("{\"program\":\"idle_causes\",\"ns\":%ld,\"first_ns\":%" PRIu64 ",\"steps\":%d}\n",
                   atomic_load(&spent), first, STEPS);
            return 0;
        }
    }
    FAIL("no such cause");
}
