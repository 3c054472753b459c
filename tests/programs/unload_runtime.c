// Calls the runtime from one place in the code, before and after it closes the library that the first call went to. Its
// weak reference is satisfied only where something that is preloaded has the function.
#include <dlfcn.h>

#include "common.h"

extern int cudaDeviceSynchronize(void) __attribute__((weak));

static void *open_runtime(const char *name)
{
    void *runtime = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (runtime == NULL)
        FAIL("%s", dlerror());
    return runtime;
}

int main(void)
{
    REQUIRE(cudaDeviceSynchronize != NULL);
    void *runtime = open_runtime("libcudart.so.12");
    for (int turn = 0; turn < 2; turn++) {
        CHECK(cudaDeviceSynchronize());
        CHECK(dlclose(runtime));
        runtime = open_runtime("libcudart.so.13");
    }
    printf("{\"program\":\"unload_runtime\",\"launches\":0}\n");
    return 0;
}
