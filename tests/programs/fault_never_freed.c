// A training loop that gives a buffer back after half of its steps, and evaluates after every tenth. faulty: the evaluation
// never frees its block of 2 MiB; fixed: it does.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 200, EVERY = 10, BYTES = 2 << 20, BUFFER = 512 << 20 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool faulty = strcmp(arguments[1], "faulty") == 0;
    CUdeviceptr buffer, block;
    start_cuda();
    CUfunction kernel = load_kernel("step_50us");
    CUstream stream = new_stream();
    CHECK(cuMemAlloc(&buffer, BUFFER));
    for (int step = 0; step < STEPS; step++) {
        for (int part = 0; part < 4; part++)
            launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
        if (step == STEPS / 2)
            CHECK(cuMemFree(buffer));
        if (step % EVERY != EVERY - 1)
            continue;
        CHECK(cuMemAlloc(&block, BYTES)); // finding: never-freed
        launch(kernel, stream);
        if (!faulty)
            CHECK(cuMemFree(block));
    }
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
