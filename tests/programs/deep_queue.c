// Queues kernels behind a wait that only the program can end, as many as a program may that knows the length of the
// queue. The driver's queue takes 1020 entries and then blocks the submitting thread, so a tracer that adds too many
// entries of its own makes the program hang. An alarm ends it after 20 s with exit code 98.
//
//   deep_queue value|host-function|among-functions|spinning [QUEUED [AHEAD]]
//
// The wait is for a value in memory, for a host function, for one among many that end at once (every tenth entry before and behind
// it), or for a kernel that spins. The first three end when all QUEUED (default 600) entries are submitted; the last must not have
// ended by then. AHEAD (default 0) entries from before the wait are still running when it is enqueued. Prints the number of
// launches.
// link: -l:libcuda.so.1
#include "driver.h"

#include <semaphore.h>
#include <signal.h>

enum { WATCHDOG_SECONDS = 20, EXIT_STUCK = 98 };

static sem_t gate;

static void hold(void *data)
{
    (void)data;
    while (sem_wait(&gate) != 0 && errno == EINTR) {
    }
}

static void end_at_once(void *unused)
{
    (void)unused;
}

// Enqueues so many launches, every tenth of which is a host function instead if there are some among them. Returns the number of
// launches.
static int fill(CUfunction kernel, CUstream stream, int entries, bool are_functions_among)
{
    int launches = 0;
    for (int n = 1; n <= entries; n++)
        if (are_functions_among && n % 10 == 0)
            CHECK(cuLaunchHostFunc(stream, end_at_once, NULL));
        else {
            launch(kernel, stream);
            launches++;
        }
    return launches;
}

static void stuck(int signal)
{
    (void)signal;
    static const char text[] = "deep_queue: stuck\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_FAILED_CALL);
    _exit(EXIT_STUCK);
}

int main(int argc, char **argv)
{
    const char *gate_is = argc > 1 ? argv[1] : "value";
    int queued = argc > 2 ? atoi(argv[2]) : 600, ahead = argc > 3 ? atoi(argv[3]) : 0;
    bool is_among = strcmp(gate_is, "among-functions") == 0;
    bool by_function = is_among || strcmp(gate_is, "host-function") == 0, by_kernel = strcmp(gate_is, "spinning") == 0;
    signal(SIGALRM, stuck);
    alarm(WATCHDOG_SECONDS);
    start_cuda();
    CUfunction kernel = load_kernel("queued_3us"), before = load_kernel("ahead_20us"), spin = load_kernel("spins_3000ms");
    CUstream stream = new_stream();
    volatile uint32_t *word;
    CUdeviceptr word_on_device;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&word_on_device, (void *)word, 0));
    *word = 0;
    CHECK(sem_init(&gate, 0, 0));
    // One launch before, so that nothing waits for the kernel to load.
    launch(kernel, stream);
    launch(before, stream);
    CHECK(cuStreamSynchronize(stream));
    CUevent past;
    CHECK(cuEventCreate(&past, CU_EVENT_DISABLE_TIMING));
    int launches = 2 + by_kernel + fill(before, stream, ahead, is_among);
    if (by_kernel)
        launch(spin, stream);
    else if (by_function)
        CHECK(cuLaunchHostFunc(stream, hold, NULL));
    else
        CHECK(cuStreamWaitValue32(stream, word_on_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuEventRecord(past, stream));
    launches += fill(kernel, stream, queued, is_among);
    REQUIRE(cuEventQuery(past) == CUDA_ERROR_NOT_READY);
    *word = 1;
    CHECK(sem_post(&gate));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFreeHost((void *)word));
    printf("{\"program\":\"deep_queue\",\"gate\":\"%s\",\"launches\":%d,\"queued\":%d}\n", gate_is,
           launches, queued);
    return 0;
}
