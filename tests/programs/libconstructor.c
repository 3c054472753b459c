// A library whose constructor starts a thread that calls CUDA, and waits for that thread while the loader holds its lock.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda_runtime_api.h>

#include "driver.h"

static void *call(void *unused)
{
    CUdeviceptr block;
    void *runtime_block = NULL;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(runtime_block));
    CHECK(cuMemAlloc(&block, 4096));
    CHECK(cuMemFree(block));
    return unused;
}

__attribute__((constructor)) static void wait_for_thread(void)
{
    pthread_t thread;
    struct timespec until;
    CHECK(pthread_create(&thread, NULL, call, NULL));
    CHECK(clock_gettime(CLOCK_REALTIME, &until));
    until.tv_sec += 10;
    CHECK(pthread_timedjoin_np(thread, NULL, &until));
}
