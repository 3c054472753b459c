// For programs that launch steadily and then end with the last launches still pending.
#pragma once
#include "driver.h"

// Launches `count` kernels of 20 us, of which the last 200 are `last` and are not waited for, and prints the count.
static inline void launch_and_leave_pending(const char *program, int count, const char *last_name)
{
    start_cuda();
    CUfunction steady = load_kernel("steady_20us"), last = load_kernel(last_name);
    CUstream stream = new_stream();
    for (int launched = 0; launched < count; launched++) {
        launch(launched < count - 200 ? steady : last, stream);
        if (launched < count - 200 && launched % 20 == 19)
            CHECK(cuStreamSynchronize(stream));
    }
    printf("{\"program\":\"%s\",\"pid\":%d,\"launches\":%d}\n", program, (int)getpid(), count);
    REQUIRE(fflush(stdout) == 0);
}
