// `outside_cuda sleeping` or `outside_cuda computing`: steps of a kernel of 200 us and a wait for it, with 15 ms outside CUDA
// in between, in which the thread sleeps or spins. Prints how long it was outside CUDA, and for how much of that it ran or
// waited for a processor, by its own clock and by the system.
// link: -l:libcuda.so.1
#include "driver.h"
#include <time.h>

enum { STEPS = 50, OUTSIDE_US = 15000 };

// How long this thread has waited for a processor, ns.
static uint64_t queued_ns(void)
{
    unsigned long long ran, queued;
    FILE *schedstat = fopen("/proc/thread-self/schedstat", "r");
    REQUIRE(schedstat != NULL && fscanf(schedstat, "%llu %llu", &ran, &queued) == 2);
    fclose(schedstat);
    return queued;
}

// How long this thread has run, ns.
static uint64_t ran_ns(void)
{
    struct timespec time;
    REQUIRE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2 && (strcmp(argv[1], "sleeping") == 0 || strcmp(argv[1], "computing") == 0));
    bool sleeps = argv[1][0] == 's';
    start_cuda();
    CUfunction kernel = load_kernel("step_200us");
    CUstream stream = new_stream();
    uint64_t outside = 0, ran = 0, queued = 0;
    for (int step = 0; step < STEPS; step++) {
        launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
        uint64_t began = now_ns(), ran_before = ran_ns(), queued_before = queued_ns();
        if (sleeps)
            pause_us(OUTSIDE_US);
        else
            while (now_ns() - began < OUTSIDE_US * 1000)
                ;
        ran += ran_ns() - ran_before;
        queued += queued_ns() - queued_before;
        outside += now_ns() - began;
    }
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"outside_ns\":%" PRIu64 ",\"ran_ns\":%" PRIu64 ",\"queued_ns\":%" PRIu64 "}\n", outside, ran, queued);
    return 0;
}
