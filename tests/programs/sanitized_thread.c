// Some plain work of four threads, compiled with ThreadSanitizer. The threads start after the first CUDA call, when a
// collector has been started for the process: ThreadSanitizer ends processes that start threads after a fork.
// flags: -fsanitize=thread
// link: -l:libcuda.so.1
#include "plain_work.h"

static void *work(void *index)
{
    (void)index;
    plain_work();
    return NULL;
}

int main(void)
{
    start_cuda();
    pause_us(200000);
    run_threads(4, work);
    printf("{\"program\":\"sanitized_thread\",\"launches\":%d}\n", 4 * PLAIN_LAUNCHES);
    return 0;
}
