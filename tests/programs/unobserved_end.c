// Has more threads that call CUDA than the agent has slots for. In each round one more thread ends what has work pending on it,
// and then everything begins anew. The argument says how:
//
//   destroy    it destroys the context
//   release    it releases the primary context
//   stream     it destroys the stream
//
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { THREADS = 530, STACK = 128 << 10, ROUNDS = 5, LAUNCHES = 40 };

static const char *way;
static CUcontext context;
static CUstream stream;
static pthread_barrier_t all_have_called;
static atomic_bool is_over;

static bool is_way(const char *name)
{
    return strcmp(way, name) == 0;
}

// Calls CUDA, and stays until the end.
static void *call(void *nothing)
{
    CHECK(cuInit(0));
    pthread_barrier_wait(&all_have_called);
    while (!atomic_load(&is_over))
        pause_us(20000);
    return nothing;
}

static void begin(void)
{
    if (is_way("release"))
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    else
        CHECK(cuCtxCreate(&context, 0, 0));
    CHECK(cuCtxSetCurrent(context));
}

static void *end(void *nothing)
{
    if (is_way("stream")) {
        CHECK(cuCtxSetCurrent(context));
        CHECK(cuStreamDestroy(stream));
    } else if (is_way("release")) {
        CHECK(cuDevicePrimaryCtxRelease(0));
    } else {
        CHECK(cuCtxDestroy(context));
    }
    return nothing;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    way = argv[1];
    CHECK(cuInit(0));
    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0);
    REQUIRE(pthread_barrier_init(&all_have_called, NULL, THREADS + 1) == 0);
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        REQUIRE(pthread_create(&threads[n], &small, call, NULL) == 0);
    pthread_barrier_wait(&all_have_called);
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        CUfunction kernel = load_kernel("pending_200us");
        stream = new_stream();
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        pthread_t one_more;
        CHECK(pthread_create(&one_more, NULL, end, NULL));
        CHECK(pthread_join(one_more, NULL));
        pause_us(20000);
        if (is_way("stream"))
            CHECK(cuCtxDestroy(context));
        else
            CHECK(cuCtxSetCurrent(NULL));
    }
    atomic_store(&is_over, true);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(threads[n], NULL));
    printf("{\"program\":\"unobserved_end\",\"launches\":%d}\n", ROUNDS * LAUNCHES);
    return 0;
}
