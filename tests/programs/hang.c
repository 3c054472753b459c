// Waits for work that does not end, or takes long:
//
//   hang gate           a kernel stands behind a value in memory that nothing ever writes
//   hang kernel         a kernel runs for an hour
//   hang launches       launches without a GPU time (--timing off) behind such a value
//   hang copy           a synchronous copy to the host waits for a kernel of an hour on its stream
//   hang deep           a stream is 400 launches deep, and 300 more stand behind such a value
//   hang deep_kernel    the same, but the 300 come after a kernel of an hour
//   hang two            one stream stands behind the value, another one goes on
//   hang slow           a kernel runs for three seconds
//   hang progress       thirty kernels of 100 ms are queued at once, and run one after another
//   hang healthy        short kernels for three seconds, with pauses
//
// The first seven do not end by themselves, except after a minute with exit code 98. Prints the mode at its end.
// link: -l:libcuda.so.1
#include "gate.h"

static CUstream stream;

// Two kernels that complete, as the last ones before the hang.
static void begin(void)
{
    CUfunction ahead = load_kernel("ahead_20us");
    launch(ahead, stream);
    launch(ahead, stream);
    CHECK(cuStreamSynchronize(stream));
    // The poller reads their times.
    pause_us(50000);
}

static void wait_for(CUfunction kernel)
{
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
}

static void fill_the_stream(CUfunction kernel, int launches)
{
    for (int launched = 0; launched < launches; launched++)
        launch(kernel, stream);
}

static void go_on_beside(CUfunction flowing)
{
    CUstream other = new_stream();
    for (;;) {
        launch(flowing, other);
        pause_us(2000);
    }
}

static void short_kernels(void)
{
    CUfunction kernel = load_kernel("short_10us");
    for (int launched = 0; launched < 300; launched++) {
        launch(kernel, stream);
        if (launched % 10 == 0)
            CHECK(cuStreamSynchronize(stream));
        pause_us(10000);
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    const char *mode = argv[1];
    end_if_stuck(60);
    start_cuda();
    stream = new_stream();
    begin();
    // All is loaded before the GPU is held up: loading waits for what is queued.
    CUfunction stalled = load_kernel("stalled_3us"), spins = load_kernel("spins_3600000ms");
    if (strcmp(mode, "gate") == 0 || strcmp(mode, "launches") == 0) {
        stand_behind(new_gate(), stream);
        wait_for(stalled);
    } else if (strcmp(mode, "kernel") == 0) {
        wait_for(spins);
    } else if (strcmp(mode, "copy") == 0) {
        CUdeviceptr memory;
        char host[64];
        CHECK(cuMemAlloc(&memory, sizeof host));
        // The default stream, which a synchronous copy waits for.
        launch(spins, NULL);
        CHECK(cuMemcpyDtoH(host, memory, sizeof host));
    } else if (strncmp(mode, "deep", 4) == 0) {
        struct gate gate = new_gate();
        fill_the_stream(load_kernel("ahead_200us"), 400);
        if (strcmp(mode, "deep") == 0)
            stand_behind(gate, stream);
        else
            fill_the_stream(spins, 1);
        fill_the_stream(stalled, 300);
        CHECK(cuStreamSynchronize(stream));
    } else if (strcmp(mode, "two") == 0) {
        CUfunction flowing = load_kernel("flowing_10us");
        stand_behind(new_gate(), stream);
        launch(stalled, stream);
        go_on_beside(flowing);
    } else if (strcmp(mode, "slow") == 0) {
        wait_for(load_kernel("slow_3000ms"));
        // The collector sees that it is over.
        pause_us(500000);
    } else if (strcmp(mode, "progress") == 0) {
        CUfunction kernel = load_kernel("step_100ms");
        for (int launched = 0; launched < 30; launched++)
            launch(kernel, stream);
        for (int waited = 0; waited < 40; waited++)
            pause_us(100000);
        CHECK(cuStreamSynchronize(stream));
    } else {
        REQUIRE(strcmp(mode, "healthy") == 0);
        short_kernels();
    }
    printf("{\"program\":\"hang\",\"mode\":\"%s\"}\n", mode);
    return 0;
}
