// A stream's handle comes back as the next stream's: ROUNDS lives, round n with 10 * (n + 1) launches, of which the last
// are under way when the stream is destroyed.
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
