// A library that other libraries find before the driver: wraps cuLaunchKernel, forwards to the driver's own, counts.
#include "call.h"
#include "common.h"

#include <dlfcn.h>

static atomic_int calls;

int between_calls(void)
{
    return calls;
}

int cuLaunchKernel(LAUNCH_PARAMETERS)
{
    static _Atomic(launch_kernel) next;
    if (next == NULL)
        next = (launch_kernel)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
    calls++;
    return next != NULL ? next(LAUNCH_ARGUMENTS) : 500;
}

// By its name one of CUDA's, and none.
void cuBetween(void) {}
