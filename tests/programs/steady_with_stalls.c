// Does steady work of several kernels and shapes on one stream: MS milliseconds of steps (first argument), each of a
// few dozen launches and a wait. STALLS times (second), spread over them, the host does nothing for STALL_MS (third)
// after a step's wait. STOP_MS (fourth, 0: never) is how long a signal stops the process, once, in the middle of a
// step. Prints the numbers of steps, launches and stalls.
// link: -l:libcuda.so.1
#include "driver.h"

#include <signal.h>
#include <sys/wait.h>

enum { LAUNCHES = 40, COPIES = 2, BYTES = 1 << 16 };

static void sleep_ms(unsigned ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&time, &time) != 0) {
    }
}

// A child process continues us again; it does nothing else, and makes no CUDA calls.
static void stop_for(unsigned ms)
{
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        sleep_ms(ms);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    while (waitpid(child, NULL, 0) != child) {
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 5);
    unsigned ms = (unsigned)atoi(argv[1]), stalls = (unsigned)atoi(argv[2]);
    unsigned stall_ms = (unsigned)atoi(argv[3]), stop_ms = (unsigned)atoi(argv[4]);
    start_cuda();
    CUfunction steady = load_kernel("steady_5us"), shaped = load_kernel("shaped_argns");
    CUstream stream = new_stream();
    CUdeviceptr block;
    static char host[BYTES];
    CHECK(cuMemAlloc(&block, BYTES));
    uint64_t began = now_ns(), paused = 0, lasts_ns;
    void *arguments[] = {&lasts_ns};
    unsigned stalled = 0, steps = 0;
    bool is_stopped = stop_ms == 0;
    for (uint64_t past; (past = now_ns() - began - paused) < ms * 1000000ull; steps++) {
        for (unsigned n = 0; n < LAUNCHES; n++) {
            // One launch in four is of the kernel whose length depends on its shape.
            if (n % 4 == 0) {
                unsigned blocks = 1 + n / 4 % 3;
                lasts_ns = blocks * 4000;
                CHECK(cuLaunchKernel(shaped, blocks, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
            } else {
                launch(steady, stream);
            }
            if (!is_stopped && n == LAUNCHES / 2 && past > ms * 500000ull) {
                uint64_t before = now_ns();
                stop_for(stop_ms);
                paused += now_ns() - before;
                is_stopped = true;
            }
        }
        for (int n = 0; n < COPIES; n++)
            CHECK(cuMemcpyHtoDAsync(block, host, BYTES, stream));
        CHECK(cuStreamSynchronize(stream));
        if (stalled < stalls && past > ms * 1000000ull * (stalled + 1) / (stalls + 1)) {
            uint64_t before = now_ns();
            sleep_ms(stall_ms);
            paused += now_ns() - before;
            stalled++;
        }
    }
    printf("{\"program\":\"steady_with_stalls\",\"steps\":%u,\"launches\":%u,\"stalls\":%u}\n", steps, steps * LAUNCHES, stalled);
    return 0;
}
