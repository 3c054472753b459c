// Keeps a stream always busy but never deep: N launches (first argument, default 3000) of a 20 us kernel, with the host
// about fifty launches ahead. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { AHEAD = 25 };

int main(int argc, char **argv)
{
    int launches = argc > 1 ? atoi(argv[1]) : 3000;
    start_cuda();
    CUfunction kernel = load_kernel("busy_20us");
    CUstream stream = new_stream();
    CUevent passed[2];
    for (int i = 0; i < 2; i++)
        CHECK(cuEventCreate(&passed[i], CU_EVENT_DISABLE_TIMING));
    for (int n = 0; n < launches; n++) {
        if (n % AHEAD == 0) {
            int i = n / AHEAD % 2;
            if (n >= 2 * AHEAD)
                CHECK(cuEventSynchronize(passed[i]));
            CHECK(cuEventRecord(passed[i], stream));
        }
        launch(kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"busy_stream\",\"launches\":%d}\n", launches);
    return 0;
}
