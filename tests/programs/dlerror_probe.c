// Prints what dlerror(3) returns after lookups that succeed, that fail, and that follow one another, so that the output
// can be compared with and without a preloaded tracer. Each step makes a lookup and prints dlerror twice: it reports
// each error once.
#include "common.h"

#include <dlfcn.h>

static void print_step(const char *step, bool found)
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
        print_step(steps[step].what, dlsym(handles[steps[step].handle], steps[step].name) != NULL);
    // A successful lookup must not report an earlier failure that was not queried, and the other way round.
    dlsym(handles[0], "cuNoSuchFunction");
    print_step("failed, then known", dlsym(handles[0], "cuLaunchKernel") != NULL);
    dlsym(handles[0], "cuLaunchKernel");
    print_step("known, then failed", dlsym(handles[0], "cuNoSuchFunction") != NULL);
    print_step("a library that is not there", dlopen("libno_such_library.so", RTLD_NOW) != NULL);
    return 0;
}
