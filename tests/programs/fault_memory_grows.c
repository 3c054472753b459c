// A training loop. faulty: each step keeps a block of 4 MiB until the end; fixed: the steps take turns with four blocks.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 200, BYTES = 4 << 20, TURNS = 4 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool faulty = strcmp(arguments[1], "faulty") == 0;
    static CUdeviceptr kept[STEPS];
    start_cuda();
    CUfunction kernel = load_kernel("step_50us");
    CUstream stream = new_stream();
    int blocks = 0;
    for (int step = 0; step < STEPS; step++) {
        if (faulty || step < TURNS)
            CHECK(cuMemAlloc(&kept[blocks++], BYTES)); // finding: memory-grows
        for (int part = 0; part < 4; part++)
            launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
    }
    while (blocks > 0)
        CHECK(cuMemFree(kept[--blocks]));
    return 0;
}
