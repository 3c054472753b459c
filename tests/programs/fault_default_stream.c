// 30 steps of two kernels, of 1 ms and of 2 ms, that do not depend on each other. The fault: one of them runs on the legacy
// default stream and the other on a blocking stream. The twin runs both on non-blocking streams.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 30 };

int main(int argc, char **argv)
{
    begin(argc, argv, "short_1ms");
    CUfunction longer = load_kernel("longer_2ms");
    CUstream other = stream, blocking;
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    if (is_faulty) {
        other = NULL;
        stream = blocking;
    } else {
        stream = new_stream();
    }
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        launch(kernel, other);
        launch(longer, stream);
    }
    CHECK(cuStreamSynchronize(other));
    return end_loop();
}
