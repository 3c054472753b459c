// Measures how long lookups take on the host: dlsym of a function that is found, and of one that is not, and
// cuGetProcAddress of one that gpuspy intercepts. Prints the median over rounds of 1000.
// link: -l:libcuda.so.1
#include <dlfcn.h>

#include "driver.h"
#include "rounds.h"

enum { ROUND = 1000, ROUNDS = 41 };

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
        uint64_t began = now_ns();
        for (int n = 0; n < ROUND; n++)
            look_up();
        took[round] = each_took(began, ROUND);
    }
    sort_rounds(took, ROUNDS);
    return took[ROUNDS / 2];
}

int main(void)
{
    start_cuda();
    printf("{\"dlsym, found\":%.1f,\"dlsym, not found\":%.1f,\"cuGetProcAddress\":%.1f}\n", median_ns(found),
           median_ns(missing), median_ns(getproc));
    return 0;
}
