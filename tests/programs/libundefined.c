// A library whose references to CUDA may have nobody who provides them: weak ones, and ones that are bound when they are
// first called.
#include "launch_type.h"
#include "common.h"

#include <dlfcn.h>

extern int cuLaunchKernel(LAUNCH_PARAMETERS);
extern int cudaDeviceSynchronize(void);
extern int cudaMalloc(void **place, size_t bytes) __attribute__((weak));
extern int cudaGetDeviceCount(int *count) __attribute__((weak));

// Returns the number of devices, or -1 if there is no CUDA.
int devices_if_any(void)
{
    int count = 0;
    if (cudaMalloc == NULL)
        return -1;
    CHECK(cudaGetDeviceCount(&count));
    return count;
}

// The result is kept until dlsym has returned: it asks who calls it.
bool is_found_by_default(void)
{
    void *volatile found = dlsym(RTLD_DEFAULT, "cudaMalloc");
    return found != NULL;
}

int launch_by_symbol(void)
{
    return cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

int synchronize_by_symbol(void)
{
    return cudaDeviceSynchronize();
}
