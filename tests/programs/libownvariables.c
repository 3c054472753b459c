// A library that finds the driver at run time, into variables of its own that have the driver's names, as cuew and
// slang-rhi do. It includes no CUDA header, which declares functions of these names.
#include "common.h"

#include <dlfcn.h>

int (*cuInit)(unsigned);
int (*cuDevicePrimaryCtxRetain)(void **, int);
int (*cuCtxSetCurrent)(void *);
int (*cuModuleLoadData)(void **, const void *);
int (*cuModuleGetFunction)(void **, void *, const char *);
int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int (*cuCtxSynchronize)(void);

// A table of names and of the variables' addresses, which the loader fills in.
static const struct {
    const char *name;
    void *variable;
} found_by_table[] = {
    {"cuModuleLoadData", &cuModuleLoadData},
    {"cuModuleGetFunction", &cuModuleGetFunction},
    {"cuLaunchKernel", &cuLaunchKernel},
    {"cuCtxSynchronize", &cuCtxSynchronize},
};

// Returns how many of the variables have no value.
int own_variables_that_are_null(void)
{
    return !cuInit + !cuDevicePrimaryCtxRetain + !cuCtxSetCurrent + !cuModuleLoadData + !cuModuleGetFunction +
           !cuLaunchKernel + !cuCtxSynchronize;
}

// Finds the driver, and launches this many kernels.
void own_launches(int launches)
{
    static const char *const names[] = {"own_10us"};
    void *context, *module, *kernel, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver != NULL);
    *(void **)&cuInit = dlsym(driver, "cuInit");
    *(void **)&cuDevicePrimaryCtxRetain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&cuCtxSetCurrent = dlsym(driver, "cuCtxSetCurrent");
    for (size_t index = 0; index < sizeof found_by_table / sizeof found_by_table[0]; index++)
        *(void **)found_by_table[index].variable = dlsym(driver, found_by_table[index].name);
    REQUIRE(own_variables_that_are_null() == 0);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    char *ptx = ptx_module(names, 1);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&kernel, module, names[0]));
    free(ptx);
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    for (int launched = 0; launched < launches; launched++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuCtxSynchronize());
}
