// Does STEPS steps of short kernels. In each of the first three, the host computes for 60 ms before one of its launches, as a
// just-in-time compiler does where a function is called for the first time. Prints the ns that this took.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 200, COMPILED = 3, COMPILE_US = 60000, LAUNCHES = 24 };

int main(void)
{
    start_cuda();
    CUfunction first = load_kernel("step_5us"), others = load_kernel("steady_5us");
    CUstream stream = new_stream();
    uint64_t compiling = 0;
    for (int step = 0; step < STEPS; step++) {
        launch(first, stream);
        for (int n = 0; n < LAUNCHES; n++) {
            if (step < COMPILED && n == 8 * step) {
                uint64_t before = now_ns();
                pause_us(COMPILE_US);
                compiling += now_ns() - before;
            }
            launch(others, stream);
        }
        CHECK(cuStreamSynchronize(stream));
        pause_us(500);
    }
    printf("{\"program\":\"compiled_in_first_steps\",\"compiling_ns\":%" PRIu64 ",\"steps\":%d}\n", compiling, STEPS);
    return 0;
}
