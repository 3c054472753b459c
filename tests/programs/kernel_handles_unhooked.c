// Launches a CUfunction and a CUkernel that were loaded without a hook, as a runtime may do: through the simulated
// driver's counterpart of NVIDIA's export tables (`runtime_kernels=hidden`). It runs on the simulator only. Prints the
// launches.
// link: -l:libcuda.so.1
#include <dlfcn.h>

#include "driver.h"

enum { TURNS = 5 };

typedef void *find_function(const char *name);

int main(void)
{
    start_cuda();
    CUstream stream = new_stream();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver != NULL);
    find_function *find = (find_function *)dlsym(driver, "simcuda_hidden");
    REQUIRE(find != NULL);
    __typeof__(cuModuleLoadData) *load_module = find("cuModuleLoadData");
    __typeof__(cuModuleGetFunction) *get_function = find("cuModuleGetFunction");
    __typeof__(cuLibraryLoadData) *load_library = find("cuLibraryLoadData");
    __typeof__(cuLibraryGetKernel) *get_kernel = find("cuLibraryGetKernel");
    REQUIRE(load_module != NULL && get_function != NULL && load_library != NULL && get_kernel != NULL);
    static const char *const names[] = {"function_2us", "kernel_2us"};
    char *of_module = ptx_module(&names[0], 1), *of_library = ptx_module(&names[1], 1);
    CUmodule module;
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;
    CHECK(load_module(&module, of_module));
    CHECK(get_function(&function, module, names[0]));
    CHECK(load_library(&library, of_library, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(get_kernel(&kernel, library, names[1]));
    for (int turn = 0; turn < TURNS; turn++) {
        launch(function, stream);
        launch((CUfunction)kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    free(of_module);
    free(of_library);
    printf("{\"program\":\"kernel_handles_unhooked\",\"launches\":%d,\"kernels\":{\"function_2us\":%d,\"kernel_2us\":%d}}\n",
           2 * TURNS, TURNS, TURNS);
    return 0;
}
