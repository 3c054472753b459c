// 40 steps that copy 1 MiB to the GPU and run a kernel on it. The fault: the copies are from pageable memory. With
// `alone` as the second argument, the program has no other copy that shows how fast copies from pinned memory are.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    bool is_alone = argc == 3 && strcmp(argv[2], "alone") == 0;
    begin(is_alone ? 2 : argc, argv, "step_2ms");
    CUdeviceptr input = device_memory(BYTES);
    void *host = is_faulty ? calloc(1, BYTES) : pinned_memory(BYTES);
    REQUIRE(host != NULL);
    // This copy shows how fast copies from pinned memory are on this machine.
    if (!is_alone)
        CHECK(cuMemcpyHtoDAsync(input, pinned_memory(BYTES), BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        CHECK(cuMemcpyHtoDAsync(input, host, BYTES, stream));
        launch(kernel, stream);
    }
    return end_loop();
}
