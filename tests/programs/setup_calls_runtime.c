// Makes the runtime calls that a program makes before its first launch and after its last: a context by name, and a
// library of kernels that the program loads itself, from memory and from a file. Prints how often it made each call.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"

// cudaThreadExit.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const char *const names[] = {"library_5us"};

#define RT(name, call) COUNTED(#name, call)

static void launch(cudaLibrary_t library)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    cudaKernel_t kernel;
    dim3 one = {1, 1, 1}, block = {32, 1, 1};
    CHECK(cudaLibraryGetKernel(&kernel, library, names[0]));
    RT(cudaLaunchKernel, cudaLaunchKernel((const void *)kernel, one, block, arguments, 0, 0));
    RT(cudaDeviceSynchronize, cudaDeviceSynchronize());
    RT(cudaLibraryUnload, cudaLibraryUnload(library));
}

int main(void)
{
    cudaLibrary_t library;
    char *ptx = ptx_module(names, 1), path[] = "/tmp/gpuspy-library-XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0 && write(file, ptx, strlen(ptx)) == (ssize_t)strlen(ptx) && close(file) == 0);
    RT(cudaInitDevice, cudaInitDevice(0, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
    RT(cudaSetDeviceFlags, cudaSetDeviceFlags(cudaDeviceScheduleAuto));
    RT(cudaLibraryLoadData, cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    launch(library);
    RT(cudaLibraryLoadFromFile, cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    launch(library);
    CHECK(unlink(path));
    RT(cudaThreadExit, cudaThreadExit());
    printf("{\"program\":\"setup_calls_runtime\",\"launches\":2,");
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
