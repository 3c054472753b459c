// Launches as fast as it can for MS milliseconds (first argument, default 1000) on THREADS threads (second, default 1),
// each on a stream of its own, and waits only at the end. With "chains" (third) each second launch is a programmatic
// one that continues the launch before. Prints the launches.
// link: -l:libcuda.so.1
#include "driver.h"

static uint64_t lasts_ns;
static CUfunction kernel, next;
static bool chains;
static CUcontext context;
static atomic_long launched;

static void *storm(void *index)
{
    (void)index;
    CHECK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    long count = 0;
    for (uint64_t until = now_ns() + lasts_ns; now_ns() < until; count++) {
        if (chains && count % 2 == 1)
            launch_behind(next, stream);
        else
            launch(kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    atomic_fetch_add(&launched, count);
    return NULL;
}

int main(int argc, char **argv)
{
    lasts_ns = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * 1000000u;
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    chains = argc > 3 && strcmp(argv[3], "chains") == 0;
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel(chains ? "head_trigger50_30us" : "storm_1us");
    next = load_kernel("next_trigger50_30us");
    run_threads(threads, storm);
    printf("{\"program\":\"launch_storm\",\"launches\":%ld}\n", atomic_load(&launched));
    return 0;
}
