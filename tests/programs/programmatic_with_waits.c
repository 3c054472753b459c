// Launches sequences of programmatic launches. In the middle of each the program waits for an event of another stream,
// and another thread repeatedly waits for the whole context. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { ROUNDS = 200, CHAIN = 4 };

static CUcontext context;
static atomic_bool over;

static void *wait_for_all(void *unused)
{
    CHECK(cuCtxSetCurrent(context));
    while (!atomic_load(&over)) {
        CHECK(cuCtxSynchronize());
        pause_us(20);
    }
    return unused;
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    CUfunction head = load_kernel("head_trigger50_20us"), next = load_kernel("next_trigger50_20us");
    CUstream stream = new_stream(), other = new_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wait_for_all, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuEventRecord(event, other));
        launch(head, stream);
        for (int n = 0; n < CHAIN; n++) {
            launch_behind(next, stream);
            if (n == CHAIN / 2)
                CHECK(cuEventSynchronize(event));
        }
        CHECK(cuStreamSynchronize(stream));
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("{\"program\":\"programmatic_with_waits\",\"launches\":%d}\n", ROUNDS * (CHAIN + 1));
    return 0;
}
