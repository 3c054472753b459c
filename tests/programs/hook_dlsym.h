// For preloaded libraries that hook dlsym. The including file defines
//   hook_answer: returns the answer to a lookup, or null if the next dlsym should answer;
//   hook_next:   returns that next dlsym.
#pragma once
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef void *(*lookup)(void *handle, const char *name);

__attribute__((visibility("hidden"))) void *hook_answer(void *handle, const char *name);
__attribute__((visibility("hidden"))) lookup hook_next(void);

// libc's dlsym: at the version of glibc 2.34 and newer, otherwise the first one.
static inline lookup libc_dlsym(void)
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

#ifdef __x86_64__
// Jumps on to the next dlsym with the caller's own return address, by which RTLD_NEXT identifies the caller.
__attribute__((naked)) void *dlsym(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    __asm__("push %rdi\n\t"
            "push %rsi\n\t"
            "sub $8, %rsp\n\t"
            "call hook_answer\n\t"
            "test %rax, %rax\n\t"
            "jnz 1f\n\t"
            "call hook_next\n\t"
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
    void *answer = hook_answer(handle, name);
    return answer != NULL ? answer : hook_next()(handle, name);
}
#endif
