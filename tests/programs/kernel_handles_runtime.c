// Launches, by the driver's function, handles that the runtime gives out: of host stubs, as a CUkernel and as a
// CUfunction, and of a library's kernels, by name and by enumeration. After a reset a CUfunction's handle is reused for
// another one. Prints the launches by kernel.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

enum { TURNS = 5, BEFORE = 3, STUBS = 9 };

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);

static const char *const stub_names[STUBS] = {"by_stub_2us", "by_compiler_2us", "function_2us", "after0_2us", "after1_2us",
                                              "after2_2us", "after3_2us", "after4_2us", "after5_2us"};
static const char *const library_names[2] = {"named_2us", "enumerated_2us"};
static char stubs[STUBS];
static long launches, by_kernel_handle;

static void launch(void *handle)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    for (int turn = 0; turn < TURNS; turn++, launches++)
        CHECK(cuLaunchKernel((CUfunction)handle, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
}

static void launch_kernel(cudaKernel_t kernel)
{
    launch(kernel);
    by_kernel_handle += TURNS;
}

int main(void)
{
    struct {
        int magic, version;
        const void *data;
        void *unused;
    } wrapper = {.magic = 0x466243b1, .version = 1};
    void **binary = __cudaRegisterFatBinary(&wrapper);
    for (int index = 0; index < STUBS; index++)
        register_kernel(binary, &stubs[index], stub_names[index]);
    __cudaRegisterFatBinaryEnd(binary);
    cudaKernel_t kernel, enumerated[2];
    cudaFunction_t function, after;
    cudaLibrary_t named, other;
    CHECK(cudaFree(NULL));
    CHECK(cudaGetKernel(&kernel, &stubs[0]));
    launch_kernel(kernel);
    CHECK(__cudaGetKernel(&kernel, &stubs[1]));
    launch_kernel(kernel);
    CHECK(cudaGetFuncBySymbol(&function, &stubs[2]));
    launch(function);
    char *ptx = ptx_module(&library_names[0], 1), *more = ptx_module(&library_names[1], 1);
    CHECK(cudaLibraryLoadData(&named, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&kernel, named, library_names[0]));
    launch_kernel(kernel);
    CHECK(cudaLibraryLoadData(&other, more, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryEnumerateKernels(enumerated, 2, other));
    launch_kernel(enumerated[0]);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaLibraryUnload(named));
    // The remaining handles are queried again, as what they are.
    launch_kernel(enumerated[0]);
    CHECK(cudaDeviceReset());
    CHECK(cudaFree(NULL));
    int same = BEFORE;
    for (; same < STUBS; same++) {
        CHECK(cudaGetFuncBySymbol(&after, &stubs[same]));
        if (after == function)
            break;
    }
    REQUIRE(same < STUBS); // otherwise this program would prove less
    launch(after);
    CHECK(cudaDeviceSynchronize());
    printf("{\"program\":\"kernel_handles_runtime\",\"launches\":%ld,\"by_kernel_handle\":%ld,\"kernels\":{\"by_stub_2us\":%d,"
           "\"by_compiler_2us\":%d,\"function_2us\":%d,\"%s\":%d,\"named_2us\":%d,\"enumerated_2us\":%d}}\n",
           launches, by_kernel_handle, TURNS, TURNS, TURNS, stub_names[same], TURNS, TURNS, 2 * TURNS);
    free(ptx);
    free(more);
    __cudaUnregisterFatBinary(binary);
    return 0;
}
