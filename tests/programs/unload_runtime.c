// Calls the runtime from one place in the code before and after it closes the library that the first call went to.
#include <dlfcn.h>

#include "common.h"

int main(void)
{
    void *runtime = dlopen("libcudart-tiny.so", RTLD_NOW | RTLD_GLOBAL);
    if (runtime == NULL)
        FAIL("%s", dlerror());
    // Its reference to the runtime is bound at its first call.
    int (*call_runtime)(void);
    void *library = dlopen("libundefined.so", RTLD_LAZY);
    REQUIRE(library != NULL);
    *(void **)&call_runtime = dlsym(library, "synchronize_by_symbol");
    CHECK(call_runtime());
    CHECK(dlclose(runtime));
    CHECK(call_runtime());
    printf("{\"program\":\"unload_runtime\",\"launches\":0}\n");
    return 0;
}
