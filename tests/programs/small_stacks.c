// Works on threads that have the smallest stacks that real programs give theirs: 64 KiB, of which the thread's own variables
// take a part.
// link: -l:libcuda.so.1
#include "plain_work.h"

enum { THREADS = 4, STACK = 64 << 10 };

static void *work(void *unused)
{
    (void)unused;
    plain_work();
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    // By now the session has begun: calls of other threads while it does so are not recorded, if that takes long.
    start_cuda();
    CHECK(pthread_attr_init(&attributes));
    CHECK(pthread_attr_setstacksize(&attributes, STACK));
    for (int thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], &attributes, work, NULL));
    for (int thread = 0; thread < THREADS; thread++)
        CHECK(pthread_join(threads[thread], NULL));
    printf("{\"program\":\"small_stacks\",\"launches\":%d}\n", THREADS * PLAIN_LAUNCHES);
    return 0;
}
