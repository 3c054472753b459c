// Starts the CUDA runtime and says what it answered: which driver functions it asks for on the way is what an observer of
// NVIDIA's own runtime wants to see. On the simulated driver NVIDIA's runtime fails, after all its questions.
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"

int main(void)
{
    int count = 0, driver = 0, runtime = 0;
    int count_result = cudaGetDeviceCount(&count), driver_result = cudaDriverGetVersion(&driver);
    CHECK(cudaRuntimeGetVersion(&runtime));
    printf("{\"program\":\"runtime_start\",\"runtime\":%d,\"driver\":%d,\"cudaDriverGetVersion\":%d,"
           "\"cudaGetDeviceCount\":%d,\"devices\":%d}\n",
           runtime, driver, driver_result, count_result, count);
    return 0;
}
