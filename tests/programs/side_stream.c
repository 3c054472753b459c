// For MS milliseconds (first argument) launches 200 kernels, waits for them and sleeps for 2 ms, again and again, after
// 12 000 launches at the start, which last longer than the first phase of --timing auto. In every tenth step it also
// launches a kernel on another stream, and waits for that by an event only: in turns the stream waits, and the host. Prints
// how long it slept in all, and how many kernels were on the other stream.
// link: -l:libcuda.so.1
#include "driver.h"

enum { FIRST = 12000, LAUNCHES = 200, SLEEP_US = 2000, APART = 10 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    start_cuda();
    CUfunction kernel = load_kernel("step_5us"), first = load_kernel("first_2us"), other = load_kernel("side_30us");
    CUstream stream = new_stream(), side = new_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int n = 1; n <= FIRST; n++) {
        launch(first, stream);
        if (n % 100 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    uint64_t end = now_ns() + (uint64_t)atoi(argv[1]) * 1000000, slept = 0, steps = 0, on_side = 0;
    for (; now_ns() < end; steps++) {
        bool has_side = steps % APART == 0, host_waits = steps % (2 * APART) == 0;
        if (has_side) {
            launch(other, side);
            CHECK(cuEventRecord(event, side));
            if (!host_waits)
                CHECK(cuStreamWaitEvent(stream, event, 0));
            on_side++;
        }
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        if (has_side && host_waits)
            CHECK(cuEventSynchronize(event));
        CHECK(cuStreamSynchronize(stream));
        pause_us(SLEEP_US);
        slept += SLEEP_US * 1000;
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"side_stream\",\"launches\":%" PRIu64 ",\"on_side\":%" PRIu64 ",\"slept_ns\":%" PRIu64 "}\n",
           FIRST + steps * LAUNCHES + on_side, on_side, slept);
    return 0;
}
