// The agent's thread begins, and gets no processor from then on, as on a machine that has too much else to do.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static void *wait_forever(void *argument)
{
    for (;;)
        pause();
    return argument;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    Dl_info caller;
    int is_agents = dladdr(__builtin_return_address(0), &caller) != 0 && strstr(caller.dli_fname, "libgpuspy.so") != NULL;
    return create(thread, attributes, is_agents ? wait_forever : start, argument);
}
