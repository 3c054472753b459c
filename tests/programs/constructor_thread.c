// Uses CUDA, then loads a library whose constructor waits for a thread that makes CUDA calls that the program has not
// made before.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "driver.h"

int main(void)
{
    void *block;
    CUcontext context;
    CHECK(cudaMalloc(&block, 4096));
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuCtxSetCurrent(context));
    if (dlopen("libconstructor.so", RTLD_NOW | RTLD_LOCAL) == NULL)
        FAIL("%s", dlerror());
    printf("{\"program\":\"constructor_thread\",\"launches\":0}\n");
    return 0;
}
