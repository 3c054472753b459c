// Loads a library with variables that have the driver's names: own_variables_loaded local|global|deep.
#include "common.h"

#include <dlfcn.h>

enum { LAUNCHES = 200 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    int flags = RTLD_LOCAL;
    if (strcmp(arguments[1], "global") == 0)
        flags = RTLD_GLOBAL;
    if (strcmp(arguments[1], "deep") == 0)
        flags = RTLD_DEEPBIND;
    void *library = dlopen("libownvariables.so", RTLD_NOW | flags);
    if (library == NULL)
        FAIL("%s", dlerror());
    int (**variable)(unsigned) = dlsym(library, "cuInit");
    int (*null)(void);
    void (*work)(int);
    *(void **)&null = dlsym(library, "own_variables_that_are_null");
    *(void **)&work = dlsym(library, "own_launches");
    // Where the library is in the global scope, the process has a variable of that name, and otherwise nothing.
    void *in_process = dlsym(RTLD_DEFAULT, "cuInit");
    bool is_found = flags == RTLD_GLOBAL ? in_process == variable : in_process == NULL;
    int before = null();
    work(LAUNCHES);
    CHECK((*variable)(0));
    printf("{\"program\":\"own_variables_loaded\",\"null\":%d,\"as_expected\":%s,\"launches\":%d}\n", before,
           is_found ? "true" : "false", LAUNCHES);
    return 0;
}
