// Runs STEPS steps (first argument, default 2000) of kernels of several lengths, in an order that SEED (second
// argument) decides; each step waits for its work. In each phase of a few dozen steps one of the kernels is more
// frequent than the others, and the last kernel, whose length is its argument, takes about the same length throughout
// the phase. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { KERNELS = 4, LAUNCHES = 60, PHASE = 40 };

static const char *const NAMES[KERNELS] = {"mixed_a_2us", "mixed_b_7us", "mixed_c_15us", "mixed_d_argns"};

static uint64_t state;

// xorshift64 (Marsaglia, 2003).
static unsigned random_below(unsigned bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % bound);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 2000;
    state = 0x9E3779B97F4A7C15u ^ (argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    start_cuda();
    CUfunction kernels[KERNELS];
    for (int index = 0; index < KERNELS; index++)
        kernels[index] = load_kernel(NAMES[index]);
    CUstream stream = new_stream();
    CUdeviceptr block;
    enum { BYTES = 1 << 20 };
    CHECK(cuMemAlloc(&block, BYTES));
    long counts_of[KERNELS] = {0};
    unsigned favourite = 0, length_ns = 0;
    for (int step = 0; step < steps; step++) {
        if (step % PHASE == 0) {
            favourite = random_below(KERNELS);
            length_ns = 5000 + random_below(40000);
        }
        for (int launched = 0; launched < LAUNCHES; launched++) {
            unsigned which = random_below(2) ? favourite : random_below(KERNELS);
            uint64_t lasts_ns = length_ns + random_below(5000);
            void *arguments[] = {&lasts_ns};
            CHECK(cuLaunchKernel(kernels[which], 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
            counts_of[which]++;
        }
        CHECK(cuMemsetD8Async(block, 0, BYTES, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("{\"program\":\"mixed_kernels\",\"launches\":%d,\"memsets\":%d,\"kernels\":{", steps * LAUNCHES, steps);
    for (int index = 0; index < KERNELS; index++)
        printf("%s\"%s\":%ld", index ? "," : "", NAMES[index], counts_of[index]);
    printf("}}\n");
    return 0;
}
