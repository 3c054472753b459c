// Holds 60 GiB of a GPU of 80 GiB, and asks for another block. faulty: for 30 GiB, which fails; fixed: for 2 GiB. ended: the same
// as faulty after a loop that sleeps before each launch, asks twice, and exits with 1; caught: launches again in place of that.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 20, SLEEP_US = 5000 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool fixed = strcmp(arguments[1], "fixed") == 0;
    bool ended = strcmp(arguments[1], "ended") == 0, caught = strcmp(arguments[1], "caught") == 0;
    CUdeviceptr weights, optimizer, batch;
    start_cuda();
    CUfunction kernel = load_kernel("step_500us");
    CUstream stream = new_stream();
    CHECK(cuMemAlloc(&weights, (size_t)20 << 30));
    CHECK(cuMemAlloc(&optimizer, (size_t)40 << 30));
    launch(kernel, stream);
    for (int step = 0; step < STEPS && (ended || caught); step++) {
        pause_us(SLEEP_US);
        launch(kernel, stream);
    }
    for (int attempt = 0; attempt < 1 + ended; attempt++) {
        CUresult result = cuMemAlloc(&batch, (size_t)(fixed ? 2 : 30) << 30); // finding: out-of-memory
        REQUIRE(result == (fixed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY));
        if (ended)
            pause_us(SLEEP_US);
    }
    if (caught)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    return ended;
}
