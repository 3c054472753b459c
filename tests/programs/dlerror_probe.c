// What dlerror(3) says after lookups that succeed, that fail, and that follow one another: so that it can be compared with
// and without a preloaded tracer. Every step asks first and prints dlerror twice: it is told once.
#include "common.h"

#include <dlfcn.h>

static void tell(const char *step, bool found)
{
    const char *first = dlerror();
    printf("%s: %s, %s", step, found ? "found" : "not found", first != NULL ? first : "no error");
    first = dlerror();
    printf(", then %s\n", first != NULL ? first : "no error");
}

int main(void)
{
    static const struct {
        const char *what, *name;
        int handle; // 0: libcuda, 1: libcudart, 2: RTLD_DEFAULT, 3: RTLD_NEXT
    } steps[] = {
        {"a function that tracers know", "cuLaunchKernel", 0},
        {"one that they do not", "cuMemRangeGetAttribute", 0},
        {"one that no driver has", "cuNoSuchFunction", 0},
        {"a runtime's in the driver", "cudaMalloc", 0},
        {"a runtime's", "cudaMalloc", 1},
        {"a driver's in the runtime", "cuLaunchKernel", 1},
        {"none, anywhere", "cuNoSuchFunction", 2},
        {"none, next", "cuNoSuchFunction", 3},
        {"libc's, anywhere", "malloc", 2},
        {"libc's, next", "malloc", 3},
    };
    void *handles[] = {dlopen("libcuda.so.1", RTLD_NOW), dlopen("libcudart.so.12", RTLD_NOW), RTLD_DEFAULT, RTLD_NEXT};
    REQUIRE(handles[0] != NULL && handles[1] != NULL);
    for (size_t step = 0; step < sizeof steps / sizeof steps[0]; step++)
        tell(steps[step].what, dlsym(handles[steps[step].handle], steps[step].name) != NULL);
    // A lookup that succeeds says nothing about an earlier one that failed and was not asked about, and the other way.
    dlsym(handles[0], "cuNoSuchFunction");
    tell("failed, then known", dlsym(handles[0], "cuLaunchKernel") != NULL);
    dlsym(handles[0], "cuLaunchKernel");
    tell("known, then failed", dlsym(handles[0], "cuNoSuchFunction") != NULL);
    tell("a library that is not there", dlopen("libno_such_library.so", RTLD_NOW) != NULL);
    return 0;
}
