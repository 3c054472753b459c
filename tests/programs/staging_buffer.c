// 40 steps of a kernel of 2 ms whose input of 1 MiB is new in each step. With `one`, all steps use the same page-locked
// buffer, which is filled when its last copy is over; with `ring`, three of them take turns.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 40, BYTES = 1 << 20, MOST = 3 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int buffers = strcmp(argv[1], "one") == 0 ? 1 : MOST;
    start_cuda();
    CUfunction kernel = load_kernel("step_2ms");
    CUstream stream = new_stream();
    CUdeviceptr input;
    void *host[MOST];
    CUevent copied[MOST];
    CHECK(cuMemAlloc(&input, BYTES));
    for (int n = 0; n < buffers; n++) {
        CHECK(cuMemAllocHost(&host[n], BYTES));
        CHECK(cuEventCreate(&copied[n], CU_EVENT_DISABLE_TIMING));
    }
    for (int step = 0; step < STEPS; step++) {
        int n = step % buffers;
        if (step >= buffers)
            CHECK(cuEventSynchronize(copied[n]));
        memset(host[n], step, BYTES);
        CHECK(cuMemcpyHtoDAsync(input, host[n], BYTES, stream));
        CHECK(cuEventRecord(copied[n], stream));
        launch(kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
