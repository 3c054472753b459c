// Has what threads inherit from the one that starts them set before the first CUDA call: floating-point operations that are invalid raise a
// signal (feenableexcept(3)), and, with the argument `first`, the thread has a real-time priority. Prints the launches, and the threads of
// the tracer's with the number of those that have such a priority.
// link: -l:libcuda.so.1 -lm
#include <dirent.h>
#include <fenv.h>
#include <sched.h>

#include "driver.h"

enum { ROUNDS = 20, LAUNCHES = 1000 };

static int threads, real_time;

static void look_at_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file) && strcmp(name, "gpuspy\n") == 0) {
            threads++;
            real_time += sched_getscheduler(atoi(task->d_name)) != SCHED_OTHER;
        }
        fclose(file);
    }
    closedir(tasks);
}

int main(int argc, char **argv)
{
    struct sched_param priority = {.sched_priority = 10};
    if (argc > 1 && strcmp(argv[1], "first") == 0)
        REQUIRE(sched_setscheduler(0, SCHED_FIFO, &priority) == 0);
    REQUIRE(feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) == 0);
    start_cuda();
    CUfunction kernel = load_kernel("inherited_5us");
    CUstream stream = new_stream();
    for (int round = 0; round < ROUNDS; round++) {
        for (int launched = 0; launched < LAUNCHES; launched++)
            launch(kernel, stream);
        CHECK(cuCtxSynchronize());
    }
    look_at_threads();
    int launches = ROUNDS * LAUNCHES;
    printf("{\"program\":\"inherited_settings\",\"launches\":%d,\"kernels\":{\"inherited_5us\":%d},\"threads\":%d,\"real_time\":%d}\n",
           launches, launches, threads, real_time);
    return 0;
}
