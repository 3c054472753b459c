// A program that launches steadily and then ends in the middle of it, with the last launches still pending.
#pragma once
#include "driver.h"

// Launches `count` kernels of 20 us, the last 200 of them without waiting for any, and says so on stdout.
static inline void launch_and_leave_pending(const char *program, int count)
{
    start_cuda();
    CUfunction kernel = load_kernel("steady_20us");
    CUstream stream = new_stream();
    for (int launched = 0; launched < count; launched++) {
        launch(kernel, stream);
        if (launched < count - 200 && launched % 20 == 19)
            CHECK(cuStreamSynchronize(stream));
    }
    printf("{\"program\":\"%s\",\"pid\":%d,\"launches\":%d}\n", program, (int)getpid(), count);
    REQUIRE(fflush(stdout) == 0);
}
