// For LD_PRELOAD: wraps cuLaunchKernel, as other tools do, and forwards to the next definition in search order. When
// the program ends it prints the number of calls to the descriptor named by WRAPLAUNCH_FD.
#include "launch_type.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int calls;

int cuLaunchKernel(LAUNCH_PARAMETERS)
{
    static _Atomic(launch_kernel) next;
    if (next == NULL)
        next = (launch_kernel)dlsym(RTLD_NEXT, "cuLaunchKernel");
    calls++;
    return next != NULL ? next(LAUNCH_ARGUMENTS) : 500;
}

__attribute__((destructor)) static void report(void)
{
    const char *descriptor = getenv("WRAPLAUNCH_FD");
    if (descriptor != NULL)
        dprintf(atoi(descriptor), "wraplaunch %d\n", calls);
}
