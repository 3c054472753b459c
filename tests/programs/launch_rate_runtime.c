// Makes N launches (the first argument) of an empty kernel by the runtime's API, synchronized every 50: for counting what a tracer
// adds to each.
//
// The fat binary that it registers contains no device code, so it runs on the simulated runtime only.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

enum { ROUND = 50 };

static void stub(void) {}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int launches = atoi(argv[1]);
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub, "rate_1ns");
    __cudaRegisterFatBinaryEnd(handle);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    dim3 one = {1, 1, 1}, threads = {32, 1, 1};
    for (int n = 1; n <= launches; n++) {
        CHECK(cudaLaunchKernel((const void *)stub, one, threads, arguments, 0, stream));
        if (n % ROUND == 0)
            CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaDeviceSynchronize());
    __cudaUnregisterFatBinary(handle);
    printf("{\"program\":\"launch_rate_runtime\",\"launches\":%d}\n", launches);
    return 0;
}
