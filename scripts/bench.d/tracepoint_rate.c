// Measures how long a tracepoint of LTTng-UST with ten fields takes: N of them (first argument, default 100000), in rounds of
// 50, as launch_rate measures launches. Prints the median over rounds.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoint_rate.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUND = 50 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = (argc > 1 ? atoi(argv[1]) : 100000) / ROUND;
    double *took = calloc((size_t)rounds, sizeof *took);
    if (rounds <= 0 || took == NULL)
        return 1;
    uint32_t grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    uint64_t correlation = 0;
    for (int round = 0; round < rounds; round++) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        for (int n = 0; n < ROUND; n++) {
            grid[0] = (uint32_t)n + 1;
            lttng_ust_tracepoint(gpuspy_bench, launch, ++correlation, main, grid, block, 0, took);
        }
        clock_gettime(CLOCK_MONOTONIC, &after);
        took[round] = ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / ROUND;
    }
    qsort(took, (size_t)rounds, sizeof *took, ascending);
    printf("{\"program\":\"tracepoint_rate\",\"tracepoints\":%d,\"median_ns\":%.1f}\n", rounds * ROUND, took[rounds / 2]);
    free(took);
    return 0;
}
