// A training loop that needs a block in each step. faulty: it allocates and frees it there; fixed: once. Prints how long the loop
// took.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 800, KERNELS = 2, BYTES = 4 << 20 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool faulty = strcmp(arguments[1], "faulty") == 0;
    CUdeviceptr block;
    start_cuda();
    CUfunction kernel = load_kernel("step_25us");
    CUstream stream = new_stream();
    if (!faulty)
        CHECK(cuMemAlloc(&block, BYTES));
    uint64_t began = now_ns();
    for (int step = 0; step < STEPS; step++) {
        if (faulty)
            CHECK(cuMemAlloc(&block, BYTES));
        for (int part = 0; part < KERNELS; part++)
            launch(kernel, stream);
        if (faulty)
            CHECK(cuMemFree(block));
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"loop_ns\":%" PRIu64 "}\n", now_ns() - began);
    if (!faulty)
        CHECK(cuMemFree(block));
    return 0;
}
