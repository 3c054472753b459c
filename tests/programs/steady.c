// Launches at a steady pace, and prints one line of JSON about its measured part in the form that scripts/gpu-check.sh
// reads: what it launched, how long a step took, and the start and end of that part. A step is a few queued kernels; a
// group of steps ends with one on a drained stream.
//
//   steady [--quick] [--no-gpu]     --no-gpu: prints that it cannot run here
// link: -l:libcuda.so.1
#include "driver.h"
#include "rounds.h"

enum { GROUPS = 40, STEPS = 20, KERNELS = 3, A_STEP = 4 };

static const char *const names[KERNELS] = {"steady_2us", "steady_20us", "alone_10us"};
static CUfunction kernels[KERNELS];
static CUstream stream;

static uint64_t on(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double group(void)
{
    uint64_t began = on(CLOCK_MONOTONIC_RAW);
    for (int step = 0; step < STEPS; step++)
        for (int turn = 0; turn < A_STEP; turn++)
            launch(kernels[turn == 1], stream);
    CHECK(cuStreamSynchronize(stream));
    double each = (double)(on(CLOCK_MONOTONIC_RAW) - began) / STEPS;
    launch(kernels[2], stream);
    CHECK(cuStreamSynchronize(stream));
    return each;
}

static void print_clocks(uint64_t raw, uint64_t real)
{
    printf("[%" PRIu64 ",%" PRIu64 "]", raw, real);
}

int main(int argc, char **argv)
{
    int groups = GROUPS;
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--no-gpu") == 0) {
            printf("{\"skip\":\"asked to\"}\n");
            return EXIT_SKIPPED;
        }
        if (strcmp(argv[at], "--quick") == 0)
            groups = 10;
    }
    start_cuda();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        kernels[kernel] = load_kernel(names[kernel]);
    stream = new_stream();
    group();
    uint64_t raw = on(CLOCK_MONOTONIC_RAW), real = on(CLOCK_REALTIME);
    double took[GROUPS];
    for (int at = 0; at < groups; at++)
        took[at] = group();
    uint64_t last_raw = on(CLOCK_MONOTONIC_RAW), last_real = on(CLOCK_REALTIME);
    sort_rounds(took, groups);
    printf("{\"program\":\"steady\",\"step_ns\":%.1f,\"region\":[%" PRIu64 ",%" PRIu64 "],\"clocks\":[", took[groups / 2],
           raw, last_raw);
    print_clocks(raw, real);
    printf(",");
    print_clocks(last_raw, last_real);
    printf("],\"launches\":%d,\"kernels\":{\"%s\":%d,\"%s\":%d,\"%s\":%d},", groups * (STEPS * A_STEP + 1), names[0],
           groups * STEPS * 3, names[1], groups * STEPS, names[2], groups);
    printf("\"true_ns\":{\"%s\":2000,\"%s\":20000,\"%s\":10000},\"versions\":{}}\n", names[0], names[1], names[2]);
    return 0;
}
