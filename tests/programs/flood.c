// Launches N kernels (default 100000) from one thread as fast as it can.
// link: -l:libcuda.so.1
#include "driver.h"

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100000;
    start_cuda();
    CUfunction kernel = load_kernel("flood_1us");
    CUstream stream = new_stream();
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    uint64_t start = now_ns();
    for (int launched = 1; launched < count; launched++)
        launch(kernel, stream);
    uint64_t ns = now_ns() - start;
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"flood\",\"launches\":%d,\"ns\":%" PRIu64 "}\n", count, ns);
    return 0;
}
