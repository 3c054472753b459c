// Launches through driver functions that the runtime found for it, by cudaGetDriverEntryPoint and
// cudaGetDriverEntryPointByVersion, as CUTLASS and bindings do. Prints, for each function, the object that its pointer
// belongs to.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "launch_type.h"
#include "common.h"

#include <dlfcn.h>

enum { LAUNCHES_EACH = 100 };

static void *answers[8];
static int answered;

// An answer, kept so that its object can be printed.
static void *keep(void *answer)
{
    REQUIRE(answer != NULL);
    return answers[answered++] = answer;
}

static void *find(const char *name)
{
    void *answer = NULL;
    enum cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPoint(name, &answer, cudaEnableDefault, &status));
    REQUIRE(status == cudaDriverEntryPointSuccess);
    return keep(answer);
}

static void *find_version(const char *name, unsigned version, unsigned long long flags)
{
    void *answer = NULL;
    enum cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &answer, version, flags, &status));
    REQUIRE(status == cudaDriverEntryPointSuccess);
    return keep(answer);
}

int main(void)
{
    static const char *const names[] = {"entered_5us"};
    static const char *const requested[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuLaunchKernel 12000",
                                        "cuLaunchKernel per thread", "cuMemRangeGetAttribute", "cuGraphInstantiate"};
    void *module, *kernel;
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    char *ptx = ptx_module(names, 1);
    CHECK(cudaFree(NULL)); // initializes the runtime
    CHECK(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, ptx));
    CHECK(((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(&kernel, module, names[0]));
    launch_kernel launches[] = {
        (launch_kernel)find("cuLaunchKernel"),
        (launch_kernel)find_version("cuLaunchKernel", 12000, cudaEnableLegacyStream),
        (launch_kernel)find_version("cuLaunchKernel", 12000, cudaEnablePerThreadDefaultStream),
    };
    find("cuMemRangeGetAttribute");
    find("cuGraphInstantiate"); // Since CUDA 11.4, it is cuGraphInstantiateWithFlags.
    for (int launched = 0; launched < LAUNCHES_EACH; launched++)
        for (size_t way = 0; way < sizeof launches / sizeof launches[0]; way++)
            CHECK(launches[way](kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cudaDeviceSynchronize());
    free(ptx);
    printf("{\"program\":\"driver_entry_points\",\"launches\":%d,\"objects\":{", 3 * LAUNCHES_EACH);
    REQUIRE(answered == sizeof requested / sizeof requested[0]);
    for (int index = 0; index < answered; index++) {
        Dl_info info;
        REQUIRE(dladdr(answers[index], &info) != 0);
        const char *slash = strrchr(info.dli_fname, '/');
        printf("%s\"%s\":\"%s\"", index ? "," : "", requested[index], slash ? slash + 1 : info.dli_fname);
    }
    printf("}}\n");
    return 0;
}
