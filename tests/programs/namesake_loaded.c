// Has a library that it loads into a scope of its own call its own function, which has the name of one of the driver's.
#include "common.h"

#include <dlfcn.h>

int main(void)
{
    void *library = dlopen("libfakecu.so", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        FAIL("%s", dlerror());
    int (*init)(unsigned);
    *(void **)&init = dlsym(library, "fakecu_init");
    REQUIRE(init != NULL && init(2) == 42 && init(3) == 43);
    printf("{\"program\":\"namesake_loaded\",\"launches\":0}\n");
    return 0;
}
