// A stream's handle is reused for the next stream: ROUNDS lives, of which the n-th has 10 * (n + 1) launches. The last
// launches of each are still running when the stream is destroyed. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 4 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("reused_5us");
    CUstream streams[ROUNDS];
    int launches = 0;
    for (int round = 0; round < ROUNDS; round++) {
        streams[round] = new_stream();
        for (int launched = 0; launched < 10 * (round + 1); launched++, launches++)
            launch(kernel, streams[round]);
        CHECK(cuStreamDestroy(streams[round]));
    }
    CHECK(cuCtxSynchronize());
    for (int round = 1; round < ROUNDS; round++)
        REQUIRE(streams[round] == streams[0]);
    printf("{\"program\":\"reused_streams\",\"rounds\":%d,\"launches\":%d}\n", ROUNDS, launches);
    return 0;
}
