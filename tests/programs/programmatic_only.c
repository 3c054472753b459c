// Makes only programmatic launches, as a radix sort built for sm_90 does: ROUNDS rounds (second argument, default 220)
// of five launches of 20 us, without a wait, on a stream of its own or on the legacy default stream. Prints the number
// of launches.
//
//   programmatic_only own|legacy [ROUNDS]
// link: -l:libcuda.so.1
#include "driver.h"

enum { LAUNCHES = 5 };

int main(int argc, char **argv)
{
    bool is_legacy = argc > 1 && strcmp(argv[1], "legacy") == 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 220;
    start_cuda();
    CUfunction kernel = load_kernel("sort_20us");
    CUstream stream = is_legacy ? NULL : new_stream();
    // One launch before, so that loading it takes no time later.
    launch_behind(kernel, stream);
    CHECK(cuCtxSynchronize());
    for (int n = 0; n < rounds * LAUNCHES; n++)
        launch_behind(kernel, stream);
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"programmatic_only\",\"launches\":%d}\n", 1 + rounds * LAUNCHES);
    return 0;
}
