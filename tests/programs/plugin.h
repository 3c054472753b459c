// A library that uses the runtime that it was linked against, as extension modules do. The including file defines
// PLUGIN_RUN. Launching a kernel that was registered with another runtime would fail.
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

static void stub_5us(void) {}

// Allocates, sets, launches `launches` kernels and frees; returns the major version of the runtime that it is bound to.
int PLUGIN_RUN(int launches)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing}, *block;
    dim3 one = {1, 1, 1}, threads = {32, 1, 1};
    int version = 0;
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub_5us, "plugin_5us");
    __cudaRegisterFatBinaryEnd(handle);
    CHECK(cudaMalloc(&block, 4096));
    CHECK(cudaMemset(block, 0, 4096));
    for (int launched = 0; launched < launches; launched++)
        CHECK(cudaLaunchKernel((const void *)stub_5us, one, threads, arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(block));
    CHECK(cudaRuntimeGetVersion(&version));
    return version / 1000;
}
