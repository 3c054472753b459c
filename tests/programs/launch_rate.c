// Measures how long a launch takes on the host: N launches (first argument, default 100000) of an empty kernel,
// synchronized every 50. Prints the median over rounds of 50. With SIMCUDA_HOST_COST=off this is the simulator's own
// work plus what a tracer adds. With a second argument it records an event behind each launch, as a tracer that times
// each has to.
// link: -l:libcuda.so.1
#include "driver.h"
#include "rounds.h"

enum { ROUND = 50 };

int main(int argc, char **argv)
{
    int rounds = (argc > 1 ? atoi(argv[1]) : 100000) / ROUND;
    REQUIRE(rounds > 0);
    start_cuda();
    CUfunction kernel = load_kernel("rate_1ns");
    CUstream stream = new_stream();
    CUevent events[ROUND];
    for (int n = 0; n < ROUND; n++)
        CHECK(cuEventCreate(&events[n], CU_EVENT_DEFAULT));
    double *took = calloc((size_t)rounds, sizeof *took);
    REQUIRE(took != NULL);
    for (int round = 0; round < rounds; round++) {
        uint64_t began = now_ns();
        for (int n = 0; n < ROUND; n++) {
            launch(kernel, stream);
            if (argc > 2)
                CHECK(cuEventRecord(events[n], stream));
        }
        took[round] = each_took(began, ROUND);
        CHECK(cuStreamSynchronize(stream));
    }
    sort_rounds(took, rounds);
    printf("{\"program\":\"launch_rate\",\"launches\":%d,\"median_ns\":%.1f,\"p90_ns\":%.1f}\n", rounds * ROUND, took[rounds / 2],
           took[rounds * 9 / 10]);
    return 0;
}
