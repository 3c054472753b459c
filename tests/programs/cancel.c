// Cancels threads while they are inside CUDA, and goes on in each case:
//
//   cancel inside     a thread waits in a synchronize call, which is a cancellation point, when it is cancelled
//   cancel launching  a thread waits in a launch until the queue has a place, when it is cancelled
//   cancel pending    a thread is cancelled before its first CUDA call, which fails at once and is no cancellation
//                     point: the call completes, and the thread ends at the next cancellation point
//   cancel exiting    the thread that calls exit is cancelled, and meets no cancellation point of the program's own there
//
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "plain_work.h"

static CUcontext context;
static CUstream stream;
static CUfunction kernel;
static atomic_bool waiting, cleaned, through;
static atomic_int launched;

static void clean(void *unused)
{
    (void)unused;
    cleaned = true;
}

static void *wait_inside(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    pthread_cleanup_push(clean, NULL);
    launch(kernel, stream);
    waiting = true;
    cuStreamSynchronize(stream);
    through = true;
    pthread_cleanup_pop(0);
    return NULL;
}

static void *launch_on(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    pthread_cleanup_push(clean, NULL);
    for (;; launched++) {
        launch(kernel, stream);
        waiting = true;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *call_first(void *unused)
{
    (void)unused;
    pthread_cleanup_push(clean, NULL);
    CHECK(pthread_cancel(pthread_self()));
    CUdeviceptr block;
    REQUIRE(cuMemAlloc(&block, 16) == CUDA_ERROR_NOT_INITIALIZED);
    through = true;
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void run_cancelled(void *(*body)(void *), bool from_outside)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, body, NULL));
    if (from_outside) {
        while (!waiting)
            pause_us(1000);
        pause_us(50000);
        CHECK(pthread_cancel(thread));
    }
    CHECK(pthread_join(thread, &result));
    REQUIRE(result == PTHREAD_CANCELED && cleaned);
}

int main(int argc, char **argv)
{
    bool inside = argc > 1 && strcmp(argv[1], "inside") == 0;
    bool launching = argc > 1 && strcmp(argv[1], "launching") == 0;
    bool exiting = argc > 1 && strcmp(argv[1], "exiting") == 0;
    int launches = PLAIN_LAUNCHES;
    if (inside) {
        start_cuda();
        CHECK(cuCtxGetCurrent(&context));
        kernel = load_kernel("long_500ms");
        stream = new_stream();
        run_cancelled(wait_inside, true);
        REQUIRE(!through);
        launches++;
    } else if (launching) {
        start_cuda();
        CHECK(cuCtxGetCurrent(&context));
        kernel = load_kernel("slow_2ms");
        stream = new_stream();
        run_cancelled(launch_on, true);
        // The stream is as it was, and a place becomes free.
        launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
        launches += launched + 1;
    } else if (exiting) {
        plain_work();
        printf("{\"program\":\"cancel\",\"launches\":%d}\n", launches);
        fflush(stdout);
        CHECK(pthread_cancel(pthread_self()));
        exit(0);
    } else {
        // Wakes the driver's thread up without submitting work.
        int version;
        CHECK(cuDriverGetVersion(&version));
        run_cancelled(call_first, false);
        REQUIRE(through);
    }
    plain_work();
    printf("{\"program\":\"cancel\",\"launches\":%d}\n", launches);
    return 0;
}
