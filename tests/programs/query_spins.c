// Waits by polling: spins of cuEventQuery and cuStreamQuery, by the driver or (argument "runtime") by the runtime, with
// other calls between them. Prints the number of queries and the total time of the spins.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "common.h"

enum { ROUNDS = 5, QUESTIONS = 4000 };

static void by_driver(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    // This event is unknown to the driver: a query that fails gets a record of its own.
    REQUIRE(cuEventQuery((CUevent)(uintptr_t)0xdead0000) != CUDA_SUCCESS);
    COUNT("cuEventQuery", 1);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuEventRecord(event, stream));
        for (int question = 0; question < QUESTIONS; question++) {
            CUresult answer = cuEventQuery(event);
            REQUIRE(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY);
            COUNT("cuEventQuery", 1);
        }
        for (int question = 0; question < QUESTIONS; question++) {
            CUresult answer = cuStreamQuery(stream);
            REQUIRE(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY);
            COUNT("cuStreamQuery", 1);
        }
    }
}

static void by_runtime(void)
{
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cudaEventRecord(event, stream));
        for (int question = 0; question < QUESTIONS; question++) {
            cudaError_t answer = cudaEventQuery(event);
            REQUIRE(answer == cudaSuccess || answer == cudaErrorNotReady);
            COUNT("cudaEventQuery", 1);
        }
        for (int question = 0; question < QUESTIONS; question++) {
            cudaError_t answer = cudaStreamQuery(stream);
            REQUIRE(answer == cudaSuccess || answer == cudaErrorNotReady);
            COUNT("cudaStreamQuery", 1);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t begin = now_ns();
    if (argc > 1 && strcmp(argv[1], "runtime") == 0)
        by_runtime();
    else
        by_driver();
    printf("{\"program\":\"query_spins\",\"spun_ns\":%" PRIu64 ",", now_ns() - begin);
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
