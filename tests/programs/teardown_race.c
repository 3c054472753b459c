// Ends contexts while other threads use them. The argument says how:
//
//   destroy    a thread launches on a context until that fails, because another has destroyed it
//   slow       the same a few times, for launches that take longer than anything waits for them
//   primary    two threads retain the primary context, work on streams of their own and release it, unsynchronized:
//              a release may or may not end the context, and a retain may or may not create it anew
//
// An alarm ends it after 60 s, with exit code 98. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

#include <signal.h>

enum { ROUNDS = 60, SLOW_ROUNDS = 3, WATCHDOG_SECONDS = 60, EXIT_STUCK = 98 };

static atomic_long launched;
static CUcontext context;
static CUfunction kernel;
static CUstream stream;

static void stuck(int signal)
{
    (void)signal;
    static const char text[] = "teardown_race: stuck\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_FAILED_CALL);
    _exit(EXIT_STUCK);
}

static void *launch_until_it_fails(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    void *arguments[] = {&nothing};
    while (cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL) == CUDA_SUCCESS)
        atomic_fetch_add(&launched, 1);
    return NULL;
}

static void destroy(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        long before = atomic_load(&launched);
        CHECK(cuCtxCreate(&context, 0, 0));
        kernel = load_kernel("raced_10us");
        stream = new_stream();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, launch_until_it_fails, NULL));
        while (atomic_load(&launched) == before)
            pause_us(50);
        pause_us((unsigned)round * 50);
        CHECK(cuCtxDestroy(context));
        CHECK(pthread_join(thread, NULL));
    }
}

static void *retain_work_release(void *index)
{
    unsigned random = (unsigned)(intptr_t)index + 1;
    for (int round = 0; round < ROUNDS; round++) {
        CUcontext primary;
        CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
        CHECK(cuCtxSetCurrent(primary));
        CUfunction mine = load_kernel("own_10us");
        CUstream own = new_stream();
        for (int n = 0; n < 20; n++) {
            launch(mine, own);
            atomic_fetch_add(&launched, 1);
        }
        CHECK(cuStreamSynchronize(own));
        if (round % 2 == 0)
            CHECK(cuStreamDestroy(own));
        CHECK(cuCtxSetCurrent(NULL));
        CHECK(cuDevicePrimaryCtxRelease(0));
        random = random * 1103515245 + 12345;
        pause_us(random / 65536 % 1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    signal(SIGALRM, stuck);
    alarm(WATCHDOG_SECONDS);
    CHECK(cuInit(0));
    if (strcmp(argv[1], "destroy") == 0)
        destroy(ROUNDS / 3);
    else if (strcmp(argv[1], "slow") == 0)
        destroy(SLOW_ROUNDS);
    else
        run_threads(2, retain_work_release);
    printf("{\"program\":\"teardown_race\",\"pid\":%d,\"launches\":%ld}\n", (int)getpid(), atomic_load(&launched));
    return 0;
}
