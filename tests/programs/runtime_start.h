// Starts the CUDA runtime and prints what it returned. An observer of NVIDIA's own runtime is interested in the driver
// functions that it requests on the way. On the simulated driver NVIDIA's runtime fails, after all its requests.
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
