// Does what programs do before their first launch: links and loads code, looks variables up, tunes functions, queries
// how many blocks fit, and enables peer access. Prints how often it made each call.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common.h"

static const char *const names[] = {"tuned_5us"};
static const char variable[] = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .global .align 8 .b8 state[64];\n";

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

#define CU(name, call) COUNTED(#name, call)

static size_t no_shared_memory(int block)
{
    (void)block;
    return 0;
}

int main(void)
{
    CUcontext contexts[2];
    CUlinkState link;
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUdeviceptr address;
    char *ptx = ptx_module(names, 1);
    void *image;
    size_t bytes;
    int blocks, grid, block;
    CU(cuInit, cuInit(0));
    for (int device = 1; device >= 0; device--) {
        CU(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
    }
    CU(cuLinkCreate, cuLinkCreate(0, NULL, NULL, &link));
    CU(cuLinkAddData, cuLinkAddData(link, CU_JIT_INPUT_PTX, ptx, strlen(ptx) + 1, "old", 0, NULL, NULL));
    CU(cuLinkDestroy, cuLinkDestroy(link));
    CU(cuLinkCreate, cuLinkCreate_v2(0, NULL, NULL, &link));
    CU(cuLinkAddData, cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, ptx, strlen(ptx) + 1, "one", 0, NULL, NULL));
    CU(cuLinkAddData, cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)variable, sizeof variable, "two", 0, NULL, NULL));
    CU(cuLinkComplete, cuLinkComplete(link, &image, &bytes));
    CU(cuModuleLoadData, cuModuleLoadData(&module, image));
    CU(cuLinkDestroy, cuLinkDestroy(link));
    REQUIRE(cuLinkDestroy(link) != CUDA_SUCCESS);
    COUNT("cuLinkDestroy", 1);
    CU(cuModuleGetFunction, cuModuleGetFunction(&function, module, names[0]));
    CU(cuModuleGetGlobal, cuModuleGetGlobal_v2(&address, &bytes, module, "state"));
    REQUIRE(bytes == 64);
    CU(cuLibraryLoadData, cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel, cuLibraryGetKernel(&kernel, library, names[0]));
    CU(cuLibraryGetModule, cuLibraryGetModule(&module, library));
    CU(cuFuncLoad, cuFuncLoad(function));
    CU(cuFuncSetAttribute, cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
    CU(cuFuncSetCacheConfig, cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
    CU(cuKernelSetAttribute, cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096, kernel, 0));
    CU(cuKernelSetCacheConfig, cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0));
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 128, 0, 0));
    CU(cuOccupancyMaxPotentialBlockSize,
       cuOccupancyMaxPotentialBlockSize(&grid, &block, function, no_shared_memory, 0, 0));
    CU(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 1, 128));
    CU(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess(contexts[1], 0));
    CU(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess(contexts[1]));
    CU(cuProfilerStart, cuProfilerStart());
    CU(cuProfilerStop, cuProfilerStop());
    CU(cuLibraryUnload, cuLibraryUnload(library));
    printf("{\"program\":\"setup_calls_driver\",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
