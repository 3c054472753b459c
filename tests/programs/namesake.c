// Calls functions that have the names of the driver's and belong to a library without CUDA.
// link: -l:libfakecu.so
#include "common.h"

int cuInit(unsigned flags);
int cuMemFree_v2(unsigned long long value);

int main(void)
{
    REQUIRE(cuInit(2) == 42);
    REQUIRE(cuMemFree_v2(7) == 7 && cuInit(3) == 43);
    printf("{\"program\":\"namesake\",\"launches\":0}\n");
    return 0;
}
