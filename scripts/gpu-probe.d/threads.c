/* Times calls of one thread while another thread makes calls of its own. Arguments are integers and pointers only. */
#include <stdint.h>
#include <time.h>

typedef long (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t);

struct call {
    function function;
    int64_t is_read; /* the first argument is the address of the value to pass: what an earlier call wrote there */
    uint64_t arguments[12]; /* more than the function takes do no harm under the C calling conventions of Linux */
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int32_t make(const struct call *call)
{
    const uint64_t *a = call->arguments;
    uint64_t first = call->is_read ? *(const uint64_t *)a[0] : a[0];
    return (int32_t)call->function(first, a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}

/* Makes the calls in turn, at most `rounds` times, until *stop is not 0. took[round * count + n] is the ns that the
 * n-th call took, worst[n] the largest of its results. Returns how many rounds there were. */
int64_t time_calls(const struct call *calls, int64_t count, int64_t rounds, uint64_t pause_ns,
                   const volatile int32_t *stop, uint64_t *took, int32_t *worst)
{
    struct timespec pause = {0, (long)pause_ns};
    int64_t round = 0;
    while (round < rounds && !*stop) {
        for (int64_t n = 0; n < count; n++) {
            uint64_t began = now();
            int32_t result = make(&calls[n]);
            took[round * count + n] = now() - began;
            worst[n] = result > worst[n] ? result : worst[n];
        }
        round++;
        if (pause_ns)
            nanosleep(&pause, 0);
    }
    return round;
}

/* Makes one call until *stop is not 0, and returns how many times. */
int64_t repeat_call(const struct call *call, const volatile int32_t *stop)
{
    int64_t times = 0;
    for (; !*stop; times++)
        make(call);
    return times;
}

long nothing(void)
{
    return 0;
}
