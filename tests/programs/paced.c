// Launches at a steady pace without waiting, and then does nothing. Arguments: KERNEL, launches per second, seconds of
// that, milliseconds of nothing, number of repetitions; then, if they are given, how many other streams have one launch
// before that, and how many are only created. Prints how long it took, and the processor time that the thread
// named "gpuspy", if there is one, has used until then by the Linux kernel's count.
// link: -l:libcuda.so.1
#include "driver.h"

#include <dirent.h>

// Returns the processor time of a thread, ns; 0 unless it has this name. A thread's clock id is made from its number,
// as clock_getcpuclockid(3) does for processes: the complement, with the bits for a thread's scheduler clock.
static uint64_t cpu_ns(const char *thread)
{
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread);
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL && fgets(name, sizeof name, file) != NULL && fclose(file) == 0);
    if (strcmp(name, "gpuspy\n") != 0)
        return 0;
    enum { OF_THREAD = 4, SCHEDULED = 2 };
    clockid_t clock = (clockid_t)(~(unsigned)atoi(thread) << 3 | OF_THREAD | SCHEDULED);
    struct timespec time;
    REQUIRE(clock_gettime(clock, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t tracer_cpu_ns(void)
{
    uint64_t sum = 0;
    DIR *threads = opendir("/proc/self/task");
    REQUIRE(threads != NULL);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            sum += cpu_ns(entry->d_name);
    closedir(threads);
    return sum;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 6 || argc == 8);
    uint64_t rate = strtoull(argv[2], NULL, 10), idle_ms = strtoull(argv[4], NULL, 10);
    uint64_t count = (uint64_t)((double)rate * atof(argv[3])), rounds = strtoull(argv[5], NULL, 10);
    alarm(20); // whatever it still waits for after 20 s will not come
    start_cuda();
    CUfunction kernel = load_kernel(argv[1]);
    CUstream stream = new_stream();
    uint64_t launched = 0, began = now_ns();
    for (int used = argc == 8 ? atoi(argv[6]) : 0; used > 0; used--, launched++)
        launch(kernel, new_stream());
    for (int unused = argc == 8 ? atoi(argv[7]) : 0; unused > 0; unused--)
        new_stream();
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t from = now_ns();
        for (uint64_t n = 0; n < count; n++) {
            // Ten at a time; the average pace is exact.
            uint64_t due = from + n / 10 * 10 * 1000000000u / rate, now = now_ns();
            if (now < due)
                pause_us((unsigned)((due - now) / 1000) + 1);
            launch(kernel, stream);
            launched++;
        }
        pause_us((unsigned)idle_ms * 1000);
    }
    uint64_t ended = now_ns();
    printf("{\"program\":\"paced\",\"pid\":%d,\"launches\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"tracer_cpu_ns\":%" PRIu64 "}\n",
           (int)getpid(), launched, ended - began, tracer_cpu_ns());
    return 0;
}
