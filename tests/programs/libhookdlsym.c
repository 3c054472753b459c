// For LD_PRELOAD: hooks dlsym, unversioned, and answers lookups of "cuLaunchKernel" in a library with a wrapper of its
// own, as GPU sharing tools do. When the program ends it prints the number of lookups and calls to the descriptor named
// by HOOKDLSYM_FD.
#include "launch_type.h"
#include "hook_dlsym.h"

#include <stdio.h>
#include <string.h>

static _Atomic(launch_kernel) real_launch;
static atomic_int lookups, calls;

static int wrapped_launch(LAUNCH_PARAMETERS)
{
    calls++;
    return real_launch(LAUNCH_ARGUMENTS);
}

lookup hook_next(void)
{
    return libc_dlsym();
}

void *hook_answer(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || strcmp(name, "cuLaunchKernel") != 0)
        return NULL;
    launch_kernel real = (launch_kernel)hook_next()(handle, name);
    if (real == NULL)
        return NULL;
    real_launch = real;
    lookups++;
    return (void *)wrapped_launch;
}

__attribute__((destructor)) static void report(void)
{
    const char *descriptor = getenv("HOOKDLSYM_FD");
    if (descriptor != NULL)
        dprintf(atoi(descriptor), "hookdlsym %d %d\n", lookups, calls);
}
