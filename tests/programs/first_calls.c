// Starts 32 threads whose first CUDA calls, which are also the process's first, come at the same moment. Prints how
// many of the process's threads are the agent's, and for how many descriptors the kernel's table had room before and has now.
// link: -l:libcuda.so.1
#include "driver.h"

#include <dirent.h>

enum { THREADS = 32 };

static pthread_barrier_t ready;

static void *call_at_once(void *nothing)
{
    (void)nothing;
    pthread_barrier_wait(&ready);
    CHECK(cuInit(0));
    return NULL;
}

static int threads_named(const char *wanted)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL) {
            name[strcspn(name, "\n")] = 0;
            found += strcmp(name, wanted) == 0;
        }
        fclose(file);
    }
    closedir(tasks);
    return found;
}

// How many descriptors the kernel's table has room for.
static long descriptors(void)
{
    return process_status("FDSize: %ld");
}

int main(void)
{
    long before = descriptors();
    CHECK(pthread_barrier_init(&ready, NULL, THREADS));
    run_threads(THREADS, call_at_once);
    printf("{\"program\":\"first_calls\",\"agent_threads\":%d,\"descriptors\":[%ld,%ld]}\n", threads_named("gpuspy"), before,
           descriptors());
    return 0;
}
