// Two streams with three kernels each and a memset on the legacy default stream, again and again: the memset waits for the kernels before
// it, and those after it wait for the memset. The host runs far ahead. Prints the number of launches.
//
//   legacy_between [ROUNDS]
// link: -l:libcuda.so.1
#include "driver.h"

enum { STREAMS = 2, KERNELS = 3, BYTES = 1024 };

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 400;
    start_cuda();
    CUfunction kernels[STREAMS] = {load_kernel("layer_300us"), load_kernel("side_200us")};
    CUstream streams[STREAMS];
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, BYTES));
    for (int n = 0; n < STREAMS; n++) {
        CHECK(cuStreamCreate(&streams[n], CU_STREAM_DEFAULT));
        launch(kernels[n], streams[n]);
    }
    CHECK(cuCtxSynchronize());
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < STREAMS; n++)
            for (int kernel = 0; kernel < KERNELS; kernel++)
                launch(kernels[n], streams[n]);
        CHECK(cuMemsetD8Async(memory, 0, BYTES, NULL));
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"legacy_between\",\"launches\":%d}\n", STREAMS * (1 + rounds * KERNELS));
    return 0;
}
