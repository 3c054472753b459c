// Some plain work of four threads, compiled with ThreadSanitizer.
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
    run_threads(4, work);
    printf("{\"program\":\"sanitized_thread\",\"launches\":%d}\n", 4 * PLAIN_LAUNCHES);
    return 0;
}
