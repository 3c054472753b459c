/* Calls functions one after the other and records when each returned. Arguments are integers and pointers only. */
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef long (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t);

struct call {
    function function;
    int64_t repeat;
    uint64_t arguments[12]; /* more than the function takes do no harm under the C calling conventions of Linux */
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* times[0] is before the first call, times[n + 1] after the n-th; results[n] is the worst (largest) of its results. */
void sequence(const struct call *calls, int64_t count, uint64_t *times, int32_t *results)
{
    times[0] = now();
    for (int64_t n = 0; n < count; n++) {
        const uint64_t *a = calls[n].arguments;
        int32_t worst = 0;
        for (int64_t r = 0; r < calls[n].repeat; r++) {
            int32_t result = (int32_t)calls[n].function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                                                        a[10], a[11]);
            worst = result > worst ? result : worst;
        }
        results[n] = worst;
        times[n + 1] = now();
    }
}

long read_clock(void)
{
    now();
    return 0;
}

long read_counter(void)
{
#if defined(__x86_64__)
    (void)__rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    (void)value;
#endif
    return 0;
}

long nothing(void)
{
    return 0;
}
