// A library that starts a thread in every process that it is loaded into, as compute-sanitizer does. The thread blocks no
// signal, so that the kernel may give it any that was sent to the process.
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void *wait_forever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_forever, NULL);
}
