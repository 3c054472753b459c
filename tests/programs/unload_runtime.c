// Calls the runtime from one place in the code before and after it closes the library that the first call went to. Its
// weak reference is resolved only if a preloaded library has the function.
#include <dlfcn.h>

#include "common.h"

extern int cudaDeviceSynchronize(void) __attribute__((weak));

__attribute__((noinline)) static void call(void)
{
    CHECK(cudaDeviceSynchronize());
}

int main(void)
{
    REQUIRE(cudaDeviceSynchronize != NULL);
    void *runtime = dlopen("libcudart-tiny.so", RTLD_NOW | RTLD_GLOBAL);
    if (runtime == NULL)
        FAIL("%s", dlerror());
    call();
    CHECK(dlclose(runtime));
    call();
    printf("{\"program\":\"unload_runtime\",\"launches\":0}\n");
    return 0;
}
