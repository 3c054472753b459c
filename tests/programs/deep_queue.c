// 600 kernels queued behind a gate that the program itself opens when all are submitted. The driver's queue takes 1024
// entries and then blocks the submitting thread: whoever adds entries of its own to each launch stops this program for
// good. An alarm ends it after 20 s, with exit code 98.
//
//   deep_queue [host-function]     the gate is a memory word that the stream waits for, or a host function
// link: -l:libcuda.so.1
#include "driver.h"

#include <semaphore.h>
#include <signal.h>

enum { QUEUED = 600, WATCHDOG_SECONDS = 20, EXIT_STUCK = 98 };

static sem_t gate;

static void hold(void *data)
{
    (void)data;
    while (sem_wait(&gate) != 0 && errno == EINTR) {
    }
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
    bool by_function = argc > 1 && strcmp(argv[1], "host-function") == 0;
    signal(SIGALRM, stuck);
    alarm(WATCHDOG_SECONDS);
    start_cuda();
    CUfunction kernel = load_kernel("queued_3us");
    CUstream stream = new_stream();
    volatile uint32_t *word;
    CUdeviceptr word_on_device;
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&word_on_device, (void *)word, 0));
    *word = 0;
    CHECK(sem_init(&gate, 0, 0));
    // One launch before, so that loading the kernel is not what waits.
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    if (by_function)
        CHECK(cuLaunchHostFunc(stream, hold, NULL));
    else
        CHECK(cuStreamWaitValue32(stream, word_on_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int queued = 0; queued < QUEUED; queued++)
        launch(kernel, stream);
    REQUIRE(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    *word = 1;
    CHECK(sem_post(&gate));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFreeHost((void *)word));
    printf("{\"program\":\"deep_queue\",\"gate\":\"%s\",\"launches\":%d,\"queued\":%d}\n", by_function ? "function" : "value",
           QUEUED + 1, QUEUED);
    return 0;
}
