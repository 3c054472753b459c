// STEPS steps (first argument, default 2000) of kernels of several lengths, in an order that SEED (second) decides; each
// step waits for its work. In a phase of a hundred steps one of the kernels is more frequent than the others.
// link: -l:libcuda.so.1
#include "driver.h"

enum { KERNELS = 4, LAUNCHES = 60, PHASE = 100 };

static const char *const NAMES[KERNELS] = {"mixed_a_2us", "mixed_b_7us", "mixed_c_15us", "mixed_d_60us"};

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
    unsigned favourite = 0;
    for (int step = 0; step < steps; step++) {
        if (step % PHASE == 0)
            favourite = random_below(KERNELS);
        for (int launched = 0; launched < LAUNCHES; launched++) {
            unsigned which = random_below(2) ? favourite : random_below(KERNELS);
            launch(kernels[which], stream);
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
