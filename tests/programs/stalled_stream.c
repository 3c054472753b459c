// One stream waits for the program for 1.5 s while another one keeps running. Prints the launches.
// link: -l:libcuda.so.1
#include "gate.h"

enum { STALLED = 40, FLOWING = 800 };

int main(void)
{
    end_if_stuck(30);
    start_cuda();
    CUfunction stalled = load_kernel("stalled_3us"), flowing = load_kernel("flowing_10us");
    CUstream one = new_stream(), other = new_stream();
    struct gate gate = new_gate();
    stand_behind(gate, one);
    for (int launched = 0; launched < STALLED; launched++)
        launch(stalled, one);
    for (int launched = 0; launched < FLOWING; launched++) {
        launch(flowing, other);
        pause_us(1500);
    }
    REQUIRE(cuStreamQuery(one) == CUDA_ERROR_NOT_READY);
    open_gate(gate);
    CHECK(cuStreamSynchronize(other));
    CHECK(cuStreamSynchronize(one));
    printf("{\"program\":\"stalled_stream\",\"launches\":%d,\"kernels\":{\"flowing_10us\":%d,\"stalled_3us\":%d}}\n", STALLED + FLOWING,
           FLOWING, STALLED);
    return 0;
}
