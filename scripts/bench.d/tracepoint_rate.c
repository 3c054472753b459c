// Measures how long a tracepoint of LTTng-UST with ten fields takes: N of them (first argument, default 100000), in rounds of
// 50, as launch_rate measures launches. Prints the median over rounds.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tracepoint_rate.h"

#include "rounds.h"

enum { ROUND = 50 };

int main(int argc, char **argv)
{
    int rounds = (argc > 1 ? atoi(argv[1]) : 100000) / ROUND;
    double *took = calloc((size_t)rounds, sizeof *took);
    if (rounds <= 0 || took == NULL)
        return 1;
    uint32_t grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    uint64_t correlation = 0;
    for (int round = 0; round < rounds; round++) {
        uint64_t began = now_ns();
        for (int n = 0; n < ROUND; n++) {
            grid[0] = (uint32_t)n + 1;
            lttng_ust_tracepoint(gpuspy_bench, launch, ++correlation, main, grid, block, 0, took);
        }
        took[round] = each_took(began, ROUND);
    }
    sort_rounds(took, rounds);
    printf("{\"program\":\"tracepoint_rate\",\"tracepoints\":%d,\"median_ns\":%.1f}\n", rounds * ROUND, took[rounds / 2]);
    free(took);
    return 0;
}
