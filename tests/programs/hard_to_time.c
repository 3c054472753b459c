// Runs work that is hard to time: one mix by name (first argument), in an order that SEED (second argument) decides:
//
//   steps     5 us kernels, a few per step at varying distances, sometimes behind a long one; each step is waited for
//   drained   1 us kernels, each of which is waited for
//   some      the same, but every twentieth time behind others, which are behind a long one
//   random    kernels of any length from 1 to 100 us, some queued and some alone
//   short     a program that launches nine kernels of 20 us and 200 us in all, and ends
//   copies    copies of a few sizes both ways, from and to pinned and pageable memory, some behind others
//   ahead     kernels of 5 ms, all submitted at once after a few short ones: the last begins half a second later
//
// Prints the numbers of launches and copies.
// link: -l:libcuda.so.1
#include "driver.h"

static uint64_t state;
static CUstream stream;
static long launches, copies;

// xorshift64 (Marsaglia, 2003).
static unsigned random_below(unsigned bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % bound);
}

static void spin_ns(uint64_t ns)
{
    for (uint64_t until = now_ns() + ns; now_ns() < until;) {
    }
}

static void kernel(CUfunction function, uint64_t lasts_ns)
{
    void *arguments[] = {&lasts_ns};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    launches++;
}

static void wait_for_it(void)
{
    CHECK(cuStreamSynchronize(stream));
}

// A kernel that others queue behind, and how many.
static int kernel_before(void)
{
    static CUfunction before;
    if (before == NULL)
        before = load_kernel("before_100us");
    kernel(before, 0);
    return 10;
}

static void steps(void)
{
    CUfunction five = load_kernel("step_5us");
    for (int step = 0; step < 400; step++) {
        if (random_below(4) == 0)
            kernel_before();
        for (unsigned left = 1 + random_below(8); left > 0; left--) {
            kernel(five, 0);
            if (random_below(2) == 0)
                spin_ns(random_below(15000));
        }
        wait_for_it();
    }
}

static void drained(bool some_are_queued)
{
    CUfunction one = load_kernel("tiny_1us");
    for (int step = 0; step < 1000; step++) {
        if (some_are_queued && step % 20 == 19)
            for (int left = kernel_before(); left > 0; left--)
                kernel(one, 0);
        kernel(one, 0);
        wait_for_it();
    }
}

static void any_length(void)
{
    CUfunction any = load_kernel("any_argns");
    for (int step = 0; step < 500; step++) {
        for (unsigned left = 1 + random_below(6); left > 0; left--)
            kernel(any, 1000 + random_below(99000));
        wait_for_it();
    }
}

static void a_short_run(void)
{
    CUfunction first = load_kernel("short_200us"), second = load_kernel("short_20us");
    for (int step = 0; step < 3; step++) {
        kernel(first, 0);
        kernel(second, 0);
        if (step == 1)
            wait_for_it();
        kernel(second, 0);
    }
    wait_for_it();
}

static void copies_of_sizes(void)
{
    enum { SIZES = 4, MOST = 1 << 20 };
    static const size_t sizes[SIZES] = {64, 16 << 10, 128 << 10, MOST};
    CUdeviceptr device;
    void *pinned, *pageable = calloc(1, MOST);
    CHECK(cuMemAlloc(&device, MOST));
    CHECK(cuMemAllocHost(&pinned, MOST));
    CUfunction before = load_kernel("before_30us");
    for (int step = 0; step < 600; step++) {
        size_t bytes = sizes[random_below(SIZES)];
        void *host = random_below(3) ? pinned : pageable;
        if (random_below(4) == 0)
            kernel(before, 0);
        for (unsigned left = 1 + random_below(3); left > 0; left--) {
            if (random_below(2))
                CHECK(cuMemcpyHtoDAsync(device, host, bytes, stream));
            else
                CHECK(cuMemcpyDtoHAsync(host, device, bytes, stream));
            copies++;
        }
        wait_for_it();
    }
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree(device));
    free(pageable);
}

static void far_ahead(void)
{
    CUfunction small = load_kernel("small_5us"), large = load_kernel("large_5ms");
    for (int step = 0; step < 30; step++) {
        kernel(small, 0);
        wait_for_it();
    }
    for (int left = 100; left > 0; left--)
        kernel(large, 0);
    wait_for_it();
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    const char *mix = argv[1];
    state = 0x9E3779B97F4A7C15u ^ (argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    start_cuda();
    stream = new_stream();
    if (strcmp(mix, "steps") == 0)
        steps();
    else if (strcmp(mix, "drained") == 0 || strcmp(mix, "some") == 0)
        drained(strcmp(mix, "some") == 0);
    else if (strcmp(mix, "random") == 0)
        any_length();
    else if (strcmp(mix, "short") == 0)
        a_short_run();
    else if (strcmp(mix, "copies") == 0)
        copies_of_sizes();
    else if (strcmp(mix, "ahead") == 0)
        far_ahead();
    else
        FAIL("%s: no such mix", mix);
    printf("{\"program\":\"hard_to_time\",\"launches\":%ld,\"copies\":%ld}\n", launches, copies);
    return 0;
}
