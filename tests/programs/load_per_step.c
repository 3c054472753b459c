// Does 100 steps of two kernels of 4 ms each, a load of code that nothing runs, and 2 ms of the host. The load waits for the
// kernels, so the GPU has nothing to do meanwhile.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 100, HOST_US = 2000 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("step_4ms");
    CUstream stream = new_stream();
    for (int step = 0; step < STEPS; step++) {
        launch(kernel, stream);
        launch(kernel, stream);
        load_kernel("loaded_1us");
        compute_us(HOST_US);
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"load_per_step\",\"steps\":%d}\n", STEPS);
    return 0;
}
