// Measures how long lookups take on the host: dlsym of a function that is found, and of one that is not, and
// cuGetProcAddress of one that gpuspy intercepts. Prints the median over rounds of 1000.
// link: -l:libcuda.so.1
#include <dlfcn.h>

#include "driver.h"

enum { ROUND = 1000, ROUNDS = 41 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void found(void) { REQUIRE(dlsym(RTLD_DEFAULT, "strlen") != NULL); }

static void missing(void) { REQUIRE(dlsym(RTLD_DEFAULT, "no_such_function") == NULL); }

static void getproc(void)
{
    void *function;
    CUdriverProcAddressQueryResult status;
    CHECK(cuGetProcAddress_v2("cuLaunchKernel", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
}

static double median_ns(void (*look_up)(void))
{
    double took[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        for (int n = 0; n < ROUND; n++)
            look_up();
        clock_gettime(CLOCK_MONOTONIC, &after);
        took[round] = ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / ROUND;
    }
    qsort(took, ROUNDS, sizeof *took, ascending);
    return took[ROUNDS / 2];
}

int main(void)
{
    start_cuda();
    printf("{\"dlsym, found\":%.1f,\"dlsym, not found\":%.1f,\"cuGetProcAddress\":%.1f}\n", median_ns(found),
           median_ns(missing), median_ns(getproc));
    return 0;
}
