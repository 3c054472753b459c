// Launches at a steady pace, waits for none of it, and then does nothing: KERNEL, launches a second, seconds of that,
// milliseconds of nothing, how often all this. Says how long it took.
// link: -l:libcuda.so.1
#include "driver.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 6);
    uint64_t rate = strtoull(argv[2], NULL, 10), idle_ms = strtoull(argv[4], NULL, 10);
    uint64_t count = (uint64_t)((double)rate * atof(argv[3])), rounds = strtoull(argv[5], NULL, 10);
    start_cuda();
    CUfunction kernel = load_kernel(argv[1]);
    CUstream stream = new_stream();
    uint64_t launched = 0, began = now_ns();
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t from = now_ns();
        for (uint64_t n = 0; n < count; n++) {
            // Ten at a time, on time in the long run.
            uint64_t due = from + n / 10 * 10 * 1000000000u / rate, now = now_ns();
            if (now < due)
                pause_us((unsigned)((due - now) / 1000) + 1);
            launch(kernel, stream);
            launched++;
        }
        pause_us((unsigned)idle_ms * 1000);
    }
    uint64_t ended = now_ns();
    printf("{\"program\":\"paced\",\"pid\":%d,\"launches\":%" PRIu64 ",\"wall_ns\":%" PRIu64 "}\n", (int)getpid(), launched,
           ended - began);
    return 0;
}
