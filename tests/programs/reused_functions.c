// Functions whose handles are reused after their module or library is unloaded, however the handle was obtained: from
// the loading call by name, or by enumeration. Some of the launches use a CUkernel. Prints the launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 3 };

static CUfunction by_name[ROUNDS], enumerated[ROUNDS];
static CUkernel kernels[ROUNDS];
static long launches;

static void launch_often(CUfunction function, int count, CUstream stream)
{
    for (int launched = 0; launched < count; launched++, launches++)
        launch(function, stream);
    CHECK(cuStreamSynchronize(stream));
}

static char *module_of(const char *kind, int round, char name[32])
{
    snprintf(name, 32, "%s%d_%dus", kind, round, 3 + round);
    return ptx_module((const char *const[]){name}, 1);
}

int main(void)
{
    start_cuda();
    CUstream stream = new_stream();
    char name[32];
    CUmodule module;
    CUlibrary library;
    CUfunction of_kernel;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuModuleLoadData(&module, module_of("named", round, name)));
        CHECK(cuModuleGetFunction(&by_name[round], module, name));
        launch_often(by_name[round], 10 + round, stream);
        CHECK(cuModuleUnload(module));

        CHECK(cuModuleLoadData(&module, module_of("enumerated", round, name)));
        CHECK(cuModuleEnumerateFunctions(&enumerated[round], 1, module));
        launch_often(enumerated[round], 20 + round, stream);
        CHECK(cuModuleUnload(module));

        CHECK(cuLibraryLoadData(&library, module_of("kernel", round, name), NULL, NULL, 0, NULL, NULL, 0));
        CHECK(cuLibraryGetKernel(&kernels[round], library, name));
        launch_often((CUfunction)kernels[round], 30 + round, stream);
        CHECK(cuKernelGetFunction(&of_kernel, kernels[round]));
        launch_often(of_kernel, 5, stream);
        CHECK(cuLibraryUnload(library));
    }
    // Otherwise this program would prove nothing.
    REQUIRE(by_name[0] == by_name[1] && by_name[1] == enumerated[1] && enumerated[1] == enumerated[2]);
    REQUIRE(kernels[0] == kernels[1] && kernels[1] == kernels[2]);
    printf("{\"program\":\"reused_functions\",\"kernel_handle\":%" PRIu64 ",\"by_kernel_handle\":%d,\"launches\":%ld,\"kernels\":{",
           (uint64_t)kernels[0], 30 + 31 + 32, launches);
    for (int round = 0; round < ROUNDS; round++)
        printf("%s\"named%d_%dus\":%d,\"enumerated%d_%dus\":%d,\"kernel%d_%dus\":%d", round ? "," : "", round, 3 + round, 10 + round,
               round, 3 + round, 20 + round, round, 3 + round, 35 + round);
    printf("}}\n");
    return 0;
}
