// A process whose first thread leaves by pthread_exit at once. Another thread works on the GPU and ends a moment later, which
// ends the process: its exit handler prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

#include <pthread.h>
#include <unistd.h>

enum { LAUNCHES = 100 };

static void at_the_end(void)
{
    printf("{\"launches\":%d}\n", LAUNCHES);
}

static void *work(void *unused)
{
    (void)unused;
    start_cuda();
    CUfunction kernel = load_kernel("work_5us");
    CUstream stream = new_stream();
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    usleep(100000);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    atexit(at_the_end);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_detach(thread);
    pthread_exit(NULL);
}
