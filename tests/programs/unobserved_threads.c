// Starts more threads, one after another, than the agent has slots for. Prints how often the agent's shared memory is
// mapped at the end.
// link: -l:libcuda.so.1
#include "plain_work.h"

enum { THREADS = 600, CALLS = 2 };

static CUcontext context;

static void *call(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    for (int done = 0; done < CALLS; done++)
        CHECK(cuCtxSynchronize());
    return nothing;
}

static int mappings_of(const char *name)
{
    int found = 0;
    char line[8192];
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        found += strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

int main(void)
{
    plain_work();
    CHECK(cuCtxGetCurrent(&context));
    pause_us(300000); // long enough to find out that there is no collector
    for (int index = 0; index < THREADS; index++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, call, NULL));
        CHECK(pthread_join(thread, NULL));
    }
    printf("{\"program\":\"unobserved_threads\",\"mappings\":%d}\n", mappings_of("memfd:gpuspy"));
    return 0;
}
