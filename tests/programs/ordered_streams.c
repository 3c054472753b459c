// Waits for a blocking stream while a stream that it is ordered with is held up until after the wait (CUDA Programming Guide, "Default
// stream": work on the legacy default stream waits for what blocking streams have been given before, and the other way round). With an event behind what
// holds the other stream up, the program would wait for itself. The argument says how:
//
//   run          launches on a deep stream, then the legacy default stream is held up
//   sequence     the same with programmatic launches
//   copy         while a copy on the legacy default stream is under way, another thread has another blocking stream held up
//   capture      while a copy on the legacy default stream is under way, another thread captures another blocking stream
//
// Prints the launches.
// link: -l:libcuda.so.1
#include <pthread.h>

#include "gate.h"

enum { RUN = 600, SEQUENCE = 4 };

static CUcontext context;
static CUfunction kernel;
static CUstream own, other;
static struct gate gate, of_copy;
static int launches, captures;
static _Atomic int copying, copied;

static void counted(CUstream stream)
{
    launch(kernel, stream);
    launches++;
}

static void *meanwhile(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    while (!copying)
        ;
    // The copy is under way then, or this run shows nothing.
    pause_us(20000);
    if (!captures) {
        stand_behind(gate, other);
        open_gate(of_copy);
        return nothing;
    }
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    open_gate(of_copy);
    while (!copied)
        ;
    launch(kernel, other);
    CHECK(cuStreamEndCapture(other, &graph));
    REQUIRE(graph);
    return nothing;
}

static void copy_beside_a_thread(void)
{
    char host[64];
    CUdeviceptr device;
    CHECK(cuMemAlloc(&device, sizeof host));
    of_copy = new_gate();
    stand_behind(of_copy, NULL);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, meanwhile, NULL) == 0);
    copying = 1;
    CHECK(cuMemcpyDtoH(host, device, sizeof host));
    copied = 1;
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    const char *how = argv[1];
    end_if_stuck(30);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("ordered_50us");
    CHECK(cuStreamCreate(&own, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    gate = new_gate();
    counted(own);
    counted(other);
    counted(NULL);
    CHECK(cuCtxSynchronize());
    captures = strcmp(how, "capture") == 0;
    if (captures || strcmp(how, "copy") == 0) {
        copy_beside_a_thread();
        counted(own);
    } else {
        int is_run = strcmp(how, "run") == 0;
        counted(own);
        for (int launched = 0; launched < (is_run ? RUN : SEQUENCE); launched++) {
            if (is_run)
                launch(kernel, own);
            else
                launch_behind(kernel, own);
            launches++;
        }
        stand_behind(gate, NULL);
    }
    CHECK(cuStreamSynchronize(own));
    REQUIRE(captures || cuStreamQuery(own) == CUDA_SUCCESS);
    open_gate(gate);
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"ordered_streams\",\"launches\":%d,\"kernels\":{\"ordered_50us\":%d}}\n", launches, launches);
    return 0;
}
