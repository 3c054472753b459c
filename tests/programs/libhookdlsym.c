// For LD_PRELOAD: hooks dlsym, unversioned, and answers "cuLaunchKernel" of a library with a wrapper of its own, as GPU
// sharing tools do. Prints lookups and calls to the descriptor named by HOOKDLSYM_FD when the program ends.
#include "call.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(launch_kernel) real_launch;
static atomic_int lookups, calls;

static int wrapped_launch(LAUNCH_PARAMETERS)
{
    calls++;
    return real_launch(LAUNCH_ARGUMENTS);
}

typedef void *(*lookup)(void *handle, const char *name);

// libc's dlsym: at the version of glibc 2.34 and newer, else the first one.
lookup hookdlsym_real(void)
{
    static _Atomic(lookup) found;
    if (found == NULL) {
        found = (lookup)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (found == NULL)
            found = (lookup)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        if (found == NULL)
            abort();
    }
    return found;
}

// Our answer to a lookup, or null where libc should answer.
void *hookdlsym_answer(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || strcmp(name, "cuLaunchKernel") != 0)
        return NULL;
    launch_kernel real = (launch_kernel)hookdlsym_real()(handle, name);
    if (real == NULL)
        return NULL;
    real_launch = real;
    lookups++;
    return (void *)wrapped_launch;
}

#ifdef __x86_64__
// Everything else jumps on to libc with the caller's own return address, by which RTLD_NEXT knows who asks.
__attribute__((naked)) void *dlsym(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    __asm__("push %rdi\n\t"
            "push %rsi\n\t"
            "sub $8, %rsp\n\t"
            "call hookdlsym_answer@PLT\n\t"
            "test %rax, %rax\n\t"
            "jnz 1f\n\t"
            "call hookdlsym_real@PLT\n\t"
            "add $8, %rsp\n\t"
            "pop %rsi\n\t"
            "pop %rdi\n\t"
            "jmp *%rax\n"
            "1:\n\t"
            "add $24, %rsp\n\t"
            "ret");
}
#else
void *dlsym(void *handle, const char *name)
{
    void *answer = hookdlsym_answer(handle, name);
    return answer != NULL ? answer : hookdlsym_real()(handle, name);
}
#endif

__attribute__((destructor)) static void report(void)
{
    const char *descriptor = getenv("HOOKDLSYM_FD");
    if (descriptor != NULL)
        dprintf(atoi(descriptor), "hookdlsym %d %d\n", lookups, calls);
}
