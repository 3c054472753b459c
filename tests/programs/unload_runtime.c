// Calls the runtime from one place in the code before and after it closes the library that the first call went to:
//
//   unload_runtime [LIBRARY]
#include <dlfcn.h>

#include "common.h"

int main(int argc, char **argv)
{
    void *runtime = dlopen(argc > 1 ? argv[1] : "libcudart-tiny.so", RTLD_NOW | RTLD_GLOBAL);
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
