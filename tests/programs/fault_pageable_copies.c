// 40 steps of a kernel and a copy of 1 MiB. The fault: the copies are from or to pageable memory. The second argument says
// more: `alone`: the program has no other copy that shows how fast copies of pinned memory are; `back`: the copies are to the
// host, so that the host waits in them for the kernel; `back-alone`: only copies of the other direction are of pinned memory.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 40, BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    const char *how = argc == 3 ? argv[2] : "";
    begin(argc == 3 ? 2 : argc, argv, "step_2ms");
    bool is_alone = strcmp(how, "alone") == 0, is_back = strncmp(how, "back", 4) == 0;
    CUdeviceptr block = device_memory(BYTES);
    void *host = is_faulty ? calloc(1, BYTES) : pinned_memory(BYTES);
    REQUIRE(host != NULL);
    // These copies show how fast copies of pinned memory are on this machine.
    if (!is_alone)
        CHECK(cuMemcpyHtoDAsync(block, pinned_memory(BYTES), BYTES, stream));
    if (strcmp(how, "back") == 0)
        CHECK(cuMemcpyDtoHAsync(pinned_memory(BYTES), block, BYTES, stream));
    CHECK(cuStreamSynchronize(stream));
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        if (!is_back)
            CHECK(cuMemcpyHtoDAsync(block, host, BYTES, stream)); // finding: pageable-copies
        launch(kernel, stream);
        if (is_back)
            CHECK(cuMemcpyDtoHAsync(host, block, BYTES, stream));
    }
    return end_loop();
}
