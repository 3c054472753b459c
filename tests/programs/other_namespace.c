// Loads the driver into a namespace of the loader's own, where no preloaded library is, and launches there.
#include "common.h"
#include "launch_type.h"

#include <dlfcn.h>

enum { LAUNCHES = 50 };

static void *driver;

static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    if (function == NULL)
        FAIL("%s", dlerror());
    return function;
}

int main(void)
{
    static const char *const names[] = {"namespace_5us"};
    void *context, *module, *kernel;
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    char *ptx = ptx_module(names, 1);
    driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        FAIL("%s", dlerror());
    CHECK(((int (*)(unsigned))find("cuInit"))(0));
    CHECK(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
    CHECK(((int (*)(void *))find("cuCtxSetCurrent"))(context));
    CHECK(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, ptx));
    CHECK(((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(&kernel, module, names[0]));
    launch_kernel launch = (launch_kernel)find("cuLaunchKernel");
    for (int launched = 0; launched < LAUNCHES; launched++)
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    CHECK(((int (*)(void))find("cuCtxSynchronize"))());
    printf("{\"program\":\"other_namespace\",\"launches\":%d}\n", LAUNCHES);
    return 0;
}
