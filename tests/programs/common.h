// What all client programs share: loud failures, time, threads, named counts, and PTX text for kernels.
// Includes no CUDA header, so that programs which must build without NVIDIA's headers can use it too.
#pragma once
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Exit codes besides 0: a CUDA or system call failed; the machine does not permit what the program needs.
enum { EXIT_FAILED_CALL = 99, EXIT_SKIPPED = 77 };

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        _exit(EXIT_FAILED_CALL);                                                                                       \
    } while (0)

// For calls that return 0 on success: every CUDA call, driver or runtime, and pthread_*.
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int check_result_ = (int)(call);                                                                               \
        if (check_result_ != 0)                                                                                        \
            FAIL("%s returned %d", #call, check_result_);                                                              \
    } while (0)

// For conditions that follow from the program's own logic or from CUDA's rules.
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            FAIL("not true: %s", #condition);                                                                            \
    } while (0)

static inline uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Yields the processor for at least `us` microseconds.
static inline void pause_us(unsigned us)
{
    struct timespec left = {us / 1000000u, (long)(us % 1000000u) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

// Computes for `us` microseconds of processor time: what a program does between two calls, where it is not waiting.
static inline void compute_us(unsigned us)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    int64_t until = time.tv_sec * 1000000000LL + time.tv_nsec + us * 1000LL;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    while (time.tv_sec * 1000000000LL + time.tv_nsec < until);
}

static inline long thread_id(void)
{
    return syscall(SYS_gettid);
}

// Runs body(0) … body(count - 1), each on a thread of its own, and waits for all of them.
static inline void run_threads(int count, void *(*body)(void *index))
{
    pthread_t threads[64];
    REQUIRE(count <= 64);
    for (intptr_t index = 0; index < count; index++)
        CHECK(pthread_create(&threads[index], NULL, body, (void *)index));
    for (int index = 0; index < count; index++)
        CHECK(pthread_join(threads[index], NULL));
}

// ---- named counts: what the program did, by its own account ----

struct count {
    char name[64];
    atomic_long value;
};

static struct count counts[128];
static int counts_used;
static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;

// Returns the counter of that name; it is created at its first use, and never moved.
static inline atomic_long *count_of(const char *name)
{
    CHECK(pthread_mutex_lock(&counts_lock));
    int index = 0;
    while (index < counts_used && strcmp(counts[index].name, name) != 0)
        index++;
    if (index == counts_used) {
        REQUIRE(counts_used < 128 && strlen(name) < sizeof counts[0].name);
        strcpy(counts[counts_used++].name, name);
    }
    CHECK(pthread_mutex_unlock(&counts_lock));
    return &counts[index].value;
}

// Adds to a counter. The name is looked up once per place in the code, so `name` must be the same each time.
#define COUNT(name, amount)                                                                                            \
    do {                                                                                                               \
        static _Atomic(atomic_long *) place_;                                                                          \
        atomic_long *value_ = atomic_load(&place_);                                                                    \
        if (value_ == NULL)                                                                                            \
            atomic_store(&place_, value_ = count_of(name));                                                            \
        atomic_fetch_add(value_, (amount));                                                                            \
    } while (0)

// Calls, checks, and counts the call under `name`.
#define COUNTED(name, call)                                                                                            \
    do {                                                                                                               \
        CHECK(call);                                                                                                   \
        COUNT(name, 1);                                                                                                \
    } while (0)

// Prints `"key":{"name":value,…}` for the counters whose names contain `part` and do not contain `but` (may be NULL).
static inline void print_counts(const char *key, const char *part, const char *but)
{
    printf("\"%s\":{", key);
    const char *comma = "";
    for (int index = 0; index < counts_used; index++) {
        const char *name = counts[index].name;
        if (strstr(name, part) == NULL || (but != NULL && strstr(name, but) != NULL))
            continue;
        printf("%s\"%s\":%ld", comma, name, atomic_load(&counts[index].value));
        comma = ",";
    }
    printf("}");
}

// ---- kernels ----

// Returns the duration that a kernel's name promises, in ns: the number in its suffix `_<N>ns`, `_<N>us` or `_<N>ms`; 0
// without one.
static inline uint64_t kernel_ns(const char *name)
{
    const char *suffix = strrchr(name, '_');
    char *unit = NULL;
    uint64_t number = suffix ? strtoull(suffix + 1, &unit, 10) : 0;
    if (unit == NULL || unit == suffix + 1)
        return 0;
    return strcmp(unit, "ns") == 0 ? number : strcmp(unit, "us") == 0 ? number * 1000 : number * 1000000;
}

// Returns the number in a line of /proc/self/status, which the format names; -1 if there is none.
static inline long process_status(const char *format)
{
    char line[256];
    long number = -1;
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, format, &number) == 1)
            break;
    fclose(status);
    return number;
}

// Returns the malloc'ed PTX text of a module whose kernels each take one 64-bit parameter and spin for as long as their
// names promise.
static inline char *ptx_module(const char *const names[], int count)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    REQUIRE(out != NULL);
    fprintf(out, ".version 6.0\n.target sm_70\n.address_size 64\n");
    for (int index = 0; index < count; index++)
        fprintf(out,
                "\n.visible .entry %s(.param .u64 data)\n{\n"
                "    .reg .u64 %%t<4>;\n    .reg .pred %%more;\n"
                "    mov.u64 %%t0, %%globaltimer;\n"
                "SPIN:\n"
                "    mov.u64 %%t1, %%globaltimer;\n"
                "    sub.u64 %%t2, %%t1, %%t0;\n"
                "    setp.lt.u64 %%more, %%t2, %" PRIu64 ";\n"
                "    @%%more bra SPIN;\n    ret;\n}\n",
                names[index], kernel_ns(names[index]));
    REQUIRE(fclose(out) == 0);
    return text;
}
