// While 520 threads that have called CUDA stay, more than the agent has slots for, one more launches a long kernel every 300 us
// on the stream on which the main thread launches short ones. Prints the number of short ones.
// link: -l:libcuda.so.1
#include "driver.h"

enum { THREADS = 520, STACK = 128 << 10, SHORT = 4000 };

static CUcontext context;
static CUstream stream;
static CUfunction long_one;
static pthread_barrier_t all_have_called, all_may_end;
static atomic_bool is_over;

static void *call(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    (void)cuStreamQuery(stream);
    pthread_barrier_wait(&all_have_called);
    pthread_barrier_wait(&all_may_end);
    return nothing;
}

static void *launch_long_ones(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    while (!atomic_load(&is_over)) {
        launch(long_one, stream);
        pause_us(300);
    }
    return nothing;
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    stream = new_stream();
    CUfunction short_one = load_kernel("short_5us");
    long_one = load_kernel("long_150us");
    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0);
    REQUIRE(pthread_barrier_init(&all_have_called, NULL, THREADS + 1) == 0);
    REQUIRE(pthread_barrier_init(&all_may_end, NULL, THREADS + 1) == 0);
    pthread_t threads[THREADS], one_more;
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_create(&threads[n], &small, call, NULL));
    pthread_barrier_wait(&all_have_called);
    CHECK(pthread_create(&one_more, NULL, launch_long_ones, NULL));
    for (int done = 1; done <= SHORT; done++) {
        launch(short_one, stream);
        if (done % 4 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    atomic_store(&is_over, true);
    CHECK(pthread_join(one_more, NULL));
    CHECK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&all_may_end);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(threads[n], NULL));
    printf("{\"program\":\"threads_without_slots\",\"short\":%d}\n", SHORT);
    return 0;
}
