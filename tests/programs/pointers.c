// Asks for the address of a driver function by every route there is, launches through each, and prints which addresses are
// equal to the first one.
// link: -l:libcuda.so.1
#include "driver.h"
#include "launch_type.h"

#include <dlfcn.h>

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("pointer_10us");
    CUstream stream = new_stream();
    void *by_getproc = NULL;
    CHECK(cuGetProcAddress("cuLaunchKernel", &by_getproc, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    const struct {
        const char *route;
        void *address;
    } found[] = {
        {"symbol", (void *)cuLaunchKernel},
        {"RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuLaunchKernel")},
        {"RTLD_NEXT", dlsym(RTLD_NEXT, "cuLaunchKernel")},
        {"dlopen(0)", dlsym(dlopen(NULL, RTLD_NOW), "cuLaunchKernel")},
        {"libcuda.so.1", dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel")},
        {"libcuda.so.1 again", dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel")},
        {"cuGetProcAddress", by_getproc},
    };
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    int launches = 0;
    printf("{\"program\":\"pointers\",\"equal\":{");
    for (size_t index = 0; index < sizeof found / sizeof found[0]; index++) {
        launch_kernel launch = (launch_kernel)found[index].address;
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        launches++;
        printf("%s\"%s\":%s", index ? "," : "", found[index].route,
               found[index].address == found[0].address ? "true" : "false");
    }
    CHECK(cuStreamSynchronize(stream));
    printf("},\"launches\":%d}\n", launches);
    return 0;
}
