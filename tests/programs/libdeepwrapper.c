// A library that others find before the driver: it wraps cuLaunchKernel, forwards to the driver's own, and counts the
// calls.
#include "launch_type.h"
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

// Its name looks like one of CUDA's, but CUDA has no such function.
void cuBetween(void) {}
