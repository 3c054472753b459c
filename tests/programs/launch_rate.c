// Measures how long a launch takes on the host: N launches (first argument, default 100000) of an empty kernel,
// synchronized every 50. Prints the median over rounds of 50. With SIMCUDA_HOST_COST=off this is the simulator's own
// work plus what a tracer adds.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUND = 50 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = (argc > 1 ? atoi(argv[1]) : 100000) / ROUND;
    REQUIRE(rounds > 0);
    start_cuda();
    CUfunction kernel = load_kernel("rate_1ns");
    CUstream stream = new_stream();
    double *took = calloc((size_t)rounds, sizeof *took);
    REQUIRE(took != NULL);
    for (int round = 0; round < rounds; round++) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        for (int n = 0; n < ROUND; n++)
            launch(kernel, stream);
        clock_gettime(CLOCK_MONOTONIC, &after);
        took[round] = ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / ROUND;
        CHECK(cuStreamSynchronize(stream));
    }
    qsort(took, (size_t)rounds, sizeof *took, ascending);
    printf("{\"program\":\"launch_rate\",\"launches\":%d,\"median_ns\":%.1f,\"p90_ns\":%.1f}\n", rounds * ROUND, took[rounds / 2],
           took[rounds * 9 / 10]);
    return 0;
}
