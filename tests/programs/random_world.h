// The environment of a random program (random_program.c): its random numbers, the locks that keep its threads within
// CUDA's capture rules, its contexts, and the counts of what it did.
#pragma once
// Declares every variant under its own name, instead of mapping names to the newest one.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common.h"

enum { KERNELS = 8, KERNEL_HANDLES = 2, SHARED_STREAMS = 3, SHARED_EVENTS = 2, OWN_STREAMS = 3, OWN_EVENTS = 3 };
enum { RUNTIME_KERNELS = 2, FIRST_RUNTIME_KERNEL = KERNELS + KERNEL_HANDLES };
enum { ALL_KERNELS = FIRST_RUNTIME_KERNEL + RUNTIME_KERNELS };
enum { ARRAY_WIDTH = 1024, ARRAY_HEIGHT = 64 };
enum { MAX_THREADS = 4, CONTEXTS = 2, BLOCKS = 12, GATES = 1024, BUFFER_BYTES = 1 << 20 };

static const char *const kernel_names[ALL_KERNELS] = {"r_1us",  "r_2us",  "r_5us",   "r_10us",  "r_trigger50_20us",
                                                                   "r_50us", "r_trigger20_100us", "r_200us", "h_3us", "h_30us", "c_4us", "c_trigger50_25us"};

// ---- sides: a lock that many threads hold on one side or many on the other, never on both ----

struct sides {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int inside[2];
};

static void sides_init(struct sides *sides)
{
    CHECK(pthread_mutex_init(&sides->mutex, NULL));
    CHECK(pthread_cond_init(&sides->changed, NULL));
}

static void side_enter(struct sides *sides, int side)
{
    CHECK(pthread_mutex_lock(&sides->mutex));
    while (sides->inside[!side] > 0)
        CHECK(pthread_cond_wait(&sides->changed, &sides->mutex));
    sides->inside[side]++;
    CHECK(pthread_mutex_unlock(&sides->mutex));
}

static void side_leave(struct sides *sides, int side)
{
    CHECK(pthread_mutex_lock(&sides->mutex));
    sides->inside[side]--;
    CHECK(pthread_cond_broadcast(&sides->changed));
    CHECK(pthread_mutex_unlock(&sides->mutex));
}

// ---- contexts ----

// The two sides of a context's lock.
enum { OTHERS, CAPTURES };

// A context that threads share. While anything in it is being captured, no thread may wait for the whole context; while
// a blocking stream is, no thread may use the legacy default stream (CUDA programming guide, "Prohibited and Unhandled
// Operations").
struct place {
    CUcontext context;
    CUfunction kernels[KERNELS + KERNEL_HANDLES];
    CUstream shared[SHARED_STREAMS];
    CUevent events[SHARED_EVENTS];
    struct sides whole, legacy;
};

static CUdevice device;
static struct place places[CONTEXTS];
static int contexts_used;
// Held for reading in every step; held for writing during a GLOBAL capture, in which other threads may do little.
static pthread_rwlock_t world;

// ---- a thread ----

enum memory { DEVICE, MANAGED, POOL, PINNED, REGISTERED, MEMORY_KINDS };

struct block {
    enum memory memory;
    void *address;
    struct place *place;
};

// What a thread has in one context.
struct own {
    CUstream streams[OWN_STREAMS];
    // CU_STREAM_NON_BLOCKING or not.
    unsigned flags[OWN_STREAMS];
    CUevent events[OWN_EVENTS];
    // Created when first needed.
    CUevent signal;
    CUdeviceptr device, managed;
    // With `wide`: ARRAY_WIDTH floats, and as many in each of ARRAY_HEIGHT rows.
    CUarray line, plane;
    char *pinned;
    // The words that gates wait for, and how many gates there were.
    volatile uint32_t *words;
    unsigned gates;
};

static _Thread_local struct {
    uint64_t random;
    struct place *place;
    struct own own[CONTEXTS];
    char *pageable, *registered;
    struct block blocks[BLOCKS];
    bool had_a_context;
} me;

// splitmix64: the same numbers on every machine.
static uint64_t next_random(void)
{
    uint64_t z = me.random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// Returns one of 0 … n - 1.
static int roll(int n)
{
    return (int)(next_random() % (uint64_t)n);
}

static bool one_in(int n)
{
    return roll(n) == 0;
}

static struct own *mine(void)
{
    return &me.own[me.place - places];
}

// ---- where work goes ----

// A stream argument, and whether to call the variants for per-thread default streams.
struct target {
    CUstream stream;
    bool per_thread, legacy;
};

static struct target target_of(CUstream stream, bool per_thread)
{
    bool legacy = stream == CU_STREAM_LEGACY || (stream == NULL && !per_thread);
    return (struct target){stream, per_thread, legacy};
}

static struct target any_target(void)
{
    bool per_thread = one_in(2);
    switch (roll(10)) {
    case 0:
    case 1:
        return target_of(NULL, per_thread);
    case 2:
        return target_of(CU_STREAM_LEGACY, per_thread);
    case 3:
        return target_of(CU_STREAM_PER_THREAD, per_thread);
    case 4:
    case 5:
    case 6:
        return target_of(me.place->shared[roll(SHARED_STREAMS)], per_thread);
    default:
        return target_of(mine()->streams[roll(OWN_STREAMS)], per_thread);
    }
}

// Brackets work on a target: the legacy stream is not used while a blocking one is captured.
static void target_enter(struct target target)
{
    if (target.legacy)
        side_enter(&me.place->legacy, OTHERS);
}

static void target_leave(struct target target)
{
    if (target.legacy)
        side_leave(&me.place->legacy, OTHERS);
}

// ---- calls ----

// Calls, checks and counts.
#define CU(name, export, arguments) COUNTED(#name, export arguments)
// A function that has a per-thread variant: `suffix` is _ptsz for asynchronous functions and _ptds for the others.
#define CU_ON(target, name, legacy_export, suffix, arguments)                                                          \
    COUNTED(#name, (target).per_thread ? legacy_export##suffix arguments : legacy_export arguments)
// Makes a call that must fail.
#define FAILS(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) == CUDA_SUCCESS)                                                                                    \
            FAIL("%s succeeded", #call);                                                                               \
    } while (0)

// ---- what was done ----

enum transfer { HTOD, DTOH, DTOD, HTOH, PTOP, MEMSET, TRANSFERS };
enum side { PAGEABLE_MEMORY, PINNED_MEMORY, MANAGED_MEMORY, NO_HOST_MEMORY, SIDES };

static const char *const transfer_names[TRANSFERS] = {"HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "memset"};
static const char *const side_names[SIDES] = {"pageable", "pinned", "managed", "none"};
static const char *const memory_names[MEMORY_KINDS] = {"device", "managed", "pool", "pinned", "registered"};

static atomic_long launched[ALL_KERNELS], captured, in_graphs;
static struct {
    atomic_long count, bytes;
} transferred[TRANSFERS][SIDES];
static atomic_long allocated[MEMORY_KINDS], freed[MEMORY_KINDS];

// Prints one line of JSON: exactly what was done.
static void print_counts_of(uint64_t seed, int threads)
{
    long launches = 0;
    const char *comma = "";
    for (int kernel = 0; kernel < ALL_KERNELS; kernel++)
        launches += atomic_load(&launched[kernel]);
    printf("{\"program\":\"random_program\",\"seed\":%" PRIu64 ",\"threads\":%d,\"contexts\":%d,\"launches\":%ld,"
           "\"captured\":%ld,\"in_graphs\":%ld,\"kernels\":{",
           seed, threads, contexts_used, launches, atomic_load(&captured), atomic_load(&in_graphs));
    for (int kernel = 0; kernel < ALL_KERNELS; kernel++, comma = ",")
        printf("%s\"%s\":%ld", comma, kernel_names[kernel], atomic_load(&launched[kernel]));
    printf("},\"transfers\":[");
    comma = "";
    for (int kind = 0; kind < TRANSFERS; kind++)
        for (int side = 0; side < SIDES; side++) {
            if (atomic_load(&transferred[kind][side].count) == 0)
                continue;
            printf("%s{\"kind\":\"%s\",\"host_memory\":\"%s\",\"count\":%ld,\"bytes\":%ld}", comma, transfer_names[kind],
                   side_names[side], atomic_load(&transferred[kind][side].count),
                   atomic_load(&transferred[kind][side].bytes));
            comma = ",";
        }
    printf("],\"memory\":{");
    comma = "";
    for (int memory = 0; memory < MEMORY_KINDS; memory++, comma = ",")
        printf("%s\"%s\":{\"allocations\":%ld,\"frees\":%ld}", comma, memory_names[memory],
               atomic_load(&allocated[memory]), atomic_load(&freed[memory]));
    printf("},");
    print_counts("syncs", "Synchronize", NULL);
    printf(",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    fflush(stdout);
}
