// Launches two adjacent kernels on a busy stream and puts between them, in turn, something that is no operation but
// takes longer than both: a wait for another stream, a host function, or nothing. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 60 };

static void pause_on_host(void *unused)
{
    (void)unused;
    pause_us(150);
}

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("around_5us"), longer = load_kernel("ahead_200us");
    CUstream stream = new_stream(), other = new_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        launch(longer, other);
        CHECK(cuEventRecord(event, other));
        for (int ahead = 0; ahead < 4; ahead++)
            launch(kernel, stream);
        if (round % 3 == 0)
            CHECK(cuStreamWaitEvent(stream, event, 0));
        else if (round % 3 == 1)
            CHECK(cuLaunchHostFunc(stream, pause_on_host, NULL));
        for (int behind = 0; behind < 4; behind++)
            launch(kernel, stream);
        CHECK(cuCtxSynchronize());
    }
    printf("{\"program\":\"between_kernels\",\"launches\":%d}\n", ROUNDS * 9);
    return 0;
}
