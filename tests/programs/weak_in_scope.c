// Loads a library into a scope of its own, as Python loads its modules, with CUDA's runtime and with another library that
// asks by weak references and by RTLD_DEFAULT whether CUDA is there. Prints the number of devices that this one finds.
#include "common.h"

#include <dlfcn.h>

int main(void)
{
    void *library = dlopen("libundefined_user.so", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        FAIL("%s", dlerror());
    dlopen(NULL, RTLD_LAZY);
    int (*devices)(void);
    bool (*is_found)(void);
    *(void **)&devices = dlsym(library, "devices_of_user");
    *(void **)&is_found = dlsym(library, "is_found_by_default");
    printf("{\"program\":\"weak_in_scope\",\"launches\":0,\"devices\":%d,\"is_found\":%s}\n", devices(), is_found() ? "true" : "false");
    return 0;
}
