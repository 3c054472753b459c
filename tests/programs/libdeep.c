// A library that finds the driver by dlsym, as JIT compilers do. It has its own `who`, whatever the process defines.
#include "common.h"

#include <dlfcn.h>

#include "launch_type.h"

int who(void)
{
    return 2;
}

// Returns its own `who`, and what a launch returned.
int deep_work(void *function, void *stream, int launches)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver != NULL);
    launch_kernel launch;
    *(void **)&launch = dlsym(driver, "cuLaunchKernel");
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    for (int n = 0; n < launches; n++)
        REQUIRE(launch(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == 0);
    return who();
}
