// Two threads share a stream. First, one of them is inside a copy that cannot end before the other has launched and
// released a wait: if a tracer makes the second thread wait for the first, the program hangs and an alarm ends it with
// code 98. Then both launch as fast as they can. Prints the launches, and how many of them were made during the copy.
// link: -l:libcuda.so.1
#include "gate.h"

enum { THREADS = 2, MEANWHILE = 30, STORM = 10000, BYTES = 1 << 20 };

static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static CUdeviceptr block;
static atomic_bool copied;

static void *copy_behind_the_gate(void *pageable)
{
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemcpyDtoHAsync(pageable, block, BYTES, stream));
    atomic_store(&copied, true);
    return NULL;
}

static void *storm(void *index)
{
    (void)index;
    CHECK(cuCtxSetCurrent(context));
    for (int launched = 0; launched < STORM; launched++)
        launch(kernel, stream);
    return NULL;
}

int main(void)
{
    end_if_stuck(15);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("contended_1us");
    stream = new_stream();
    CHECK(cuMemAlloc(&block, BYTES));
    struct gate gate = new_gate();
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    stand_behind(gate, stream);
    pthread_t thread;
    void *pageable = calloc(1, BYTES);
    CHECK(pthread_create(&thread, NULL, copy_behind_the_gate, pageable));
    pause_us(200000);
    for (int launched = 0; launched < MEANWHILE; launched++)
        launch(kernel, stream);
    REQUIRE(!atomic_load(&copied));
    open_gate(gate);
    CHECK(pthread_join(thread, NULL));
    run_threads(THREADS, storm);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"two_threads_one_stream\",\"meanwhile\":%d,\"launches\":%d,\"kernels\":{\"contended_1us\":%d}}\n", MEANWHILE,
           1 + MEANWHILE + THREADS * STORM, 1 + MEANWHILE + THREADS * STORM);
    return 0;
}
