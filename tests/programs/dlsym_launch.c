// Finds each driver function by dlsym on a handle of its own (dlopen with RTLD_LOCAL), as Triton's launcher, ctypes and
// others do, and launches 500 kernels. Prints the number of launches. With an argument the driver is in a namespace of the
// loader's own, where no preloaded library is.
#include "launch_type.h"
#include "common.h"

#include <dlfcn.h>

enum { LAUNCHES = 500 };

static void *driver;

static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    if (function == NULL)
        FAIL("%s", dlerror());
    return function;
}

int main(int count, char **unused)
{
    static const char *const names[] = {"found_10us"};
    void *context, *module, *kernel, *stream;
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    char *ptx = ptx_module(names, 1);
    (void)unused;
    driver = count > 1 ? dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW) : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL)
        FAIL("%s", dlerror());
    CHECK(((int (*)(unsigned))find("cuInit"))(0));
    CHECK(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
    CHECK(((int (*)(void *))find("cuCtxSetCurrent"))(context));
    CHECK(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, ptx));
    CHECK(((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(&kernel, module, names[0]));
    CHECK(((int (*)(void **, unsigned))find("cuStreamCreate"))(&stream, 1));
    launch_kernel launch = (launch_kernel)find("cuLaunchKernel");
    int (*synchronize)(void *) = (int (*)(void *))find("cuStreamSynchronize");
    for (int launched = 0; launched < LAUNCHES; launched++) {
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        if (launched % 20 == 19)
            CHECK(synchronize(stream));
    }
    free(ptx);
    printf("{\"program\":\"dlsym_launch\",\"launches\":%d}\n", LAUNCHES);
    return 0;
}
