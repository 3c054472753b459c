// A library between a program and the driver: it wraps cuLaunchKernel, forwards to the next definition, and counts the
// calls.
#include "launch_type.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int calls;

int middle_calls(void)
{
    return calls;
}

int cuLaunchKernel(LAUNCH_PARAMETERS)
{
    static _Atomic(launch_kernel) next;
    if (next == NULL)
        next = (launch_kernel)dlsym(RTLD_NEXT, "cuLaunchKernel");
    calls++;
    return next != NULL ? next(LAUNCH_ARGUMENTS) : 500;
}
