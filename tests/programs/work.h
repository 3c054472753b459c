// The work that work_driver, work_getproc and work_runtime all do, each by its own route into CUDA. The amounts are
// fixed, so that a tracer's report can be compared with what was done, call for call.
//
// Four threads share three streams: threads 0 and 1 have one each, threads 2 and 3 share the last. Each thread does its
// share of everything, in rounds; some rounds leave the stream full for the next, some drain it. A round of 25 launches
// that does not synchronize is followed by one that does, which keeps a stream below about 60 entries per thread.
#pragma once
#include "common.h"

enum { THREADS = 4, STREAMS = 3, ROUNDS = 100, LAUNCHES_PER_ROUND = 25, LAUNCHES = THREADS * ROUNDS * LAUNCHES_PER_ROUND };
enum { COPY_ROUNDS = 75, COPIES_PER_KIND = THREADS * COPY_ROUNDS, MEMSET_ROUNDS = 50, MEMSETS = THREADS * MEMSET_ROUNDS };
enum { ALLOCATIONS = 1000, BUFFER_BYTES = 256 << 10, LIVE_BLOCKS = 8 };

enum copy_kind { HTOD, DTOH, DTOD };
enum memory { DEVICE, MANAGED, POOL, HOST, MEMORY_KINDS };
enum sync { SYNC_STREAM, SYNC_EVENT, SYNC_ALL };

static const char *const kernel_names[] = {"work_2us", "work_5us", "work_20us"};
enum { KERNELS = 3 };

// One route into CUDA. Streams and events are the API's handles; a failing call ends the program.
struct work_api {
    void (*enter)(int thread); // makes the GPU usable in this thread
    void *(*stream_create)(bool blocking);
    void (*stream_destroy)(void *stream);
    void *(*event_create)(void);
    void (*event_destroy)(void *event);
    void (*launch)(int kernel, int turn, void *stream, void **arguments); // `turn` varies the API used
    void (*copy)(enum copy_kind kind, bool async, void *to, const void *from, size_t bytes, void *stream);
    void (*set)(bool async, void *to, size_t bytes, void *stream);
    void *(*allocate)(enum memory memory, size_t bytes, void *stream);
    void (*release)(enum memory memory, void *block, void *stream);
    void (*record)(void *event, void *stream);
    void (*wait)(void *stream, void *event);
    void (*synchronize)(enum sync what, void *handle); // SYNC_ALL: everything of the context or device
};

static struct work_api work;
static struct {
    void *stream;
    void *event;
    long tid;
    long launches;
} work_threads[THREADS];
static void *work_streams[STREAMS];

// Copies by kind, asynchronous or not, pinned host memory or not; pinned has no meaning for DTOD.
static struct {
    atomic_long count, bytes;
} work_copies[3][2][2];
static struct {
    atomic_long count, bytes;
} work_memsets[2];
static struct {
    atomic_long allocations, frees, bytes;
} work_memory[MEMORY_KINDS];
static atomic_long work_kernels[KERNELS], work_records, work_waits;

static void *work_allocate(enum memory memory, size_t bytes, void *stream)
{
    void *block = work.allocate(memory, bytes, stream);
    atomic_fetch_add(&work_memory[memory].allocations, 1);
    atomic_fetch_add(&work_memory[memory].bytes, (long)bytes);
    return block;
}

static void work_release(enum memory memory, void *block, void *stream)
{
    work.release(memory, block, stream);
    atomic_fetch_add(&work_memory[memory].frees, 1);
}

// A block that a thread keeps for some rounds, so that the amount of live memory goes up and down.
struct live {
    void *block[LIVE_BLOCKS];
    int next;
};

static void keep(struct live *live, size_t bytes)
{
    void **place = &live->block[live->next++ % LIVE_BLOCKS];
    if (*place != NULL)
        work_release(DEVICE, *place, NULL);
    *place = work_allocate(DEVICE, bytes, NULL);
}

static void copy_one(enum copy_kind kind, int variant, char *pinned, char *pageable, char *device, size_t bytes, void *stream)
{
    bool async = variant & 1, pin = kind != DTOD && variant & 2;
    char *host = pin ? pinned : pageable;
    char *to = kind == HTOD ? device : kind == DTOH ? host : device + BUFFER_BYTES;
    work.copy(kind, async, to, kind == HTOD ? host : device, bytes, stream);
    atomic_fetch_add(&work_copies[kind][async][pin].count, 1);
    atomic_fetch_add(&work_copies[kind][async][pin].bytes, (long)bytes);
}

static void launch_round(int thread, int round, char *device)
{
    for (int launch = 0; launch < LAUNCHES_PER_ROUND; launch++) {
        // Mostly short kernels: their times are the first to be wrong if event pairs are placed carelessly.
        int kernel = (launch * 5 + round) % 7 < 4 ? 0 : (launch + round) % 4 == 0 ? 2 : 1;
        void *arguments[] = {&device};
        work.launch(kernel, launch + round, work_threads[thread].stream, arguments);
        work_threads[thread].launches++;
        atomic_fetch_add(&work_kernels[kernel], 1);
        // In every fifth round the stream is empty when the next launch arrives.
        if (round % 5 == 4 && launch % 5 == 4)
            pause_us(60);
    }
}

static void *work_thread(void *index)
{
    int thread = (int)(intptr_t)index;
    void *stream = work_threads[thread].stream, *event = work_threads[thread].event;
    work_threads[thread].tid = thread_id();
    work.enter(thread);
    struct live live = {0};
    char *device = work_allocate(DEVICE, 2 * BUFFER_BYTES, stream), *pageable = calloc(1, BUFFER_BYTES);
    char *pinned = work_allocate(HOST, BUFFER_BYTES, stream);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)(1 + (round * 37 + thread * 11) % 64) * 4096;
        launch_round(thread, round, device);
        if (round < COPY_ROUNDS)
            for (enum copy_kind kind = HTOD; kind <= DTOD; kind++)
                copy_one(kind, round + thread, pinned, pageable, device, bytes, stream);
        if (round < MEMSET_ROUNDS) {
            work.set(round % 2, device, bytes, stream);
            atomic_fetch_add(&work_memsets[round % 2].count, 1);
            atomic_fetch_add(&work_memsets[round % 2].bytes, (long)bytes);
        }
        // 250 per thread with the buffer above: 149 plain, 75 from the pool, 25 managed.
        keep(&live, bytes);
        if (round % 2 == 0 && round != 0)
            keep(&live, 2 * bytes);
        if (round % 4 != 3)
            work_release(POOL, work_allocate(POOL, bytes, stream), stream);
        if (round % 4 == 1)
            work_release(MANAGED, work_allocate(MANAGED, bytes, stream), stream);
        work.record(event, stream);
        atomic_fetch_add(&work_records, 1);
        if (round % 3 == 0) {
            work.wait(stream, work_threads[(thread + 1) % THREADS].event);
            atomic_fetch_add(&work_waits, 1);
        }
        if (round % 20 == 6)
            work.synchronize(SYNC_ALL, NULL);
        else if (round % 4 == 0)
            work.synchronize(SYNC_EVENT, event);
        else if (round % 4 != 3)
            work.synchronize(SYNC_STREAM, stream);
    }
    work.synchronize(SYNC_STREAM, stream);
    for (int place = 0; place < LIVE_BLOCKS; place++)
        work_release(DEVICE, live.block[place], NULL);
    work_release(DEVICE, device, stream);
    work_release(HOST, pinned, stream);
    free(pageable);
    return NULL;
}

static void print_copies(void)
{
    static const char *const names[] = {"HtoD", "DtoH", "DtoD"};
    const char *comma = "";
    printf("\"copies\":[");
    for (int kind = HTOD; kind <= DTOD; kind++)
        for (int async = 0; async < 2; async++)
            for (int pin = 0; pin < (kind == DTOD ? 1 : 2); pin++) {
                printf("%s{\"kind\":\"%s\",\"async\":%s,\"host_memory\":\"%s\",\"count\":%ld,\"bytes\":%ld}", comma, names[kind],
                       async ? "true" : "false", kind == DTOD ? "none" : pin ? "pinned" : "pageable",
                       work_copies[kind][async][pin].count, work_copies[kind][async][pin].bytes);
                comma = ",";
            }
    printf("],");
}

static void print_memory(void)
{
    static const char *const names[] = {"device", "managed", "pool", "host"};
    const char *comma = "";
    printf("\"memory\":{");
    for (int memory = 0; memory < MEMORY_KINDS; memory++) {
        printf("%s\"%s\":{\"allocations\":%ld,\"frees\":%ld,\"bytes\":%ld}", comma, names[memory],
               work_memory[memory].allocations, work_memory[memory].frees, work_memory[memory].bytes);
        comma = ",";
    }
    printf("},");
}

// Prints one line of JSON: exactly what was done. `apis` names each API call by its base name, without _v2 or _ptsz.
static void print_work(const char *program)
{
    long launches = 0;
    printf("{\"program\":\"%s\",\"threads\":[", program);
    for (int thread = 0; thread < THREADS; thread++) {
        printf("%s{\"tid\":%ld,\"stream\":%d,\"launches\":%ld}", thread ? "," : "", work_threads[thread].tid,
               thread < STREAMS ? thread : STREAMS - 1, work_threads[thread].launches);
        launches += work_threads[thread].launches;
    }
    printf("],\"launches\":%ld,\"captured\":0,\"in_graphs\":0,\"kernels\":{", launches);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%s\"%s\":%ld", kernel ? "," : "", kernel_names[kernel], work_kernels[kernel]);
    printf("},");
    print_copies();
    printf("\"memsets\":{\"count\":%ld,\"bytes\":%ld},", work_memsets[0].count + work_memsets[1].count,
           work_memsets[0].bytes + work_memsets[1].bytes);
    print_memory();
    printf("\"event_records\":%ld,\"event_waits\":%ld,", work_records, work_waits);
    print_counts("syncs", "Synchronize", NULL);
    printf(",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    long allocations = 0, copies[3] = {0};
    for (int memory = DEVICE; memory < HOST; memory++)
        allocations += work_memory[memory].allocations;
    for (int kind = HTOD; kind <= DTOD; kind++)
        for (int variant = 0; variant < 4; variant++)
            copies[kind] += work_copies[kind][variant & 1][variant >> 1].count;
    REQUIRE(launches == LAUNCHES && allocations == ALLOCATIONS);
    REQUIRE(copies[HTOD] == COPIES_PER_KIND && copies[DTOH] == COPIES_PER_KIND && copies[DTOD] == COPIES_PER_KIND);
}

// Does the whole work; the caller has set `work` and made CUDA usable in this thread.
static void do_work(const char *program)
{
    for (int stream = 0; stream < STREAMS; stream++)
        work_streams[stream] = work.stream_create(stream == STREAMS - 1);
    for (int thread = 0; thread < THREADS; thread++) {
        work_threads[thread].stream = work_streams[thread < STREAMS ? thread : STREAMS - 1];
        work_threads[thread].event = work.event_create();
    }
    run_threads(THREADS, work_thread);
    work.synchronize(SYNC_ALL, NULL);
    for (int thread = 0; thread < THREADS; thread++)
        work.event_destroy(work_threads[thread].event);
    for (int stream = 0; stream < STREAMS; stream++)
        work.stream_destroy(work_streams[stream]);
    print_work(program);
}
