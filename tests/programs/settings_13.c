// Queries and settings (settings.h) with the signatures of CUDA 13's runtime.
// headers: cuda-13
// link: -l:libcudart.so.13
#define OF_VERSION                                                                                                     \
    SAME(hostNumaId, cudaDevAttrHostNumaId);                                                                           \
    REQUIRE(properties->gpuPciDeviceID == 0);

#include "settings.h"

int main(void)
{
    return run_settings("settings_13");
}
