// Queries and settings (settings.h) with the signatures of CUDA 12's runtime. Programs of CUDA 11 call the same
// functions there: their structure of properties ends 304 bytes earlier.
// link: -l:libcudart.so.12
#define OF_VERSION                                                                                                     \
    SAME(clockRate, cudaDevAttrClockRate);                                                                             \
    SAME(singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio);

#include "settings.h"

enum { BYTES_OF_11 = 728 };

cudaError_t of_11(void *properties, int device) __asm__("cudaGetDeviceProperties");

int main(void)
{
    struct cudaDeviceProp known;
    char old[BYTES_OF_11 + 16];
    CHECK(cudaGetDeviceProperties(&known, 1));
    memset(old, GUARD, sizeof old);
    CHECK(of_11(old, 1));
    REQUIRE(memcmp(old, &known, BYTES_OF_11) == 0 && old[BYTES_OF_11] == GUARD);
    return run_settings("settings_12");
}
