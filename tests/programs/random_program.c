// Runs a random CUDA program, which is the same for the same seed except for how its threads interleave. The program is
// legal throughout, and calls that are meant to fail must fail. Prints exactly what it did.
//
//   random_program SEED [STEPS [wide | memory | deep]]     STEPS of each thread, default 50; wide: see random_wide.h;
//                                                          memory: also what random_memory.h has; deep: see random_deep.h
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include "random_world.h"

// ---- launches ----

static void launch_kernel(int kernel, struct target target)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUfunction function = me.place->kernels[kernel];
    if (one_in(3)) {
        CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
        config.hStream = target.stream;
        CU_ON(target, cuLaunchKernelEx, cuLaunchKernelEx, _ptsz, (&config, function, arguments, NULL));
    } else {
        CU_ON(target, cuLaunchKernel, cuLaunchKernel, _ptsz,
              (function, 2, 1, 1, 64, 1, 1, 0, target.stream, arguments, NULL));
    }
}

static void launch(int kernel, struct target target)
{
    launch_kernel(kernel, target);
    atomic_fetch_add(&launched[kernel], 1);
}

static void step_launch(void)
{
    struct target target = any_target();
    target_enter(target);
    for (int left = 1 + roll(6); left > 0; left--) {
        launch(roll(KERNELS + KERNEL_HANDLES), target);
        if (one_in(6))
            pause_us(1 + (unsigned)roll(150));
    }
    target_leave(target);
}

// Deep: up to 300 short kernels without a pause.
static void burst(struct target target)
{
    for (int left = 50 + roll(251); left > 0; left--)
        launch(roll(4), target);
}

static void step_burst(void)
{
    struct target target = any_target();
    target_enter(target);
    burst(target);
    target_leave(target);
}

// ---- copies and memsets ----

static size_t some_bytes(void)
{
    if (one_in(25))
        return 0;
    size_t most = (size_t)1 << (2 + roll(19));
    return 1 + (size_t)(next_random() % most);
}

static void count_transfer(enum transfer kind, enum side side, size_t bytes)
{
    if (bytes == 0)
        return;
    atomic_fetch_add(&transferred[kind][side].count, 1);
    atomic_fetch_add(&transferred[kind][side].bytes, (long)bytes);
}

static char *some_host(enum side *side)
{
    int which = roll(3);
    *side = which == 0 ? PAGEABLE_MEMORY : PINNED_MEMORY;
    return which == 0 ? me.pageable : which == 1 ? mine()->pinned : me.registered;
}

static CUdeviceptr some_device(void)
{
    return one_in(4) ? mine()->managed : mine()->device;
}

// `target` also applies to variants without a stream argument: the default stream of the caller's API.
static void copy(enum transfer kind, bool async, bool untyped, struct target target, size_t bytes)
{
    enum side side = NO_HOST_MEMORY, other = PAGEABLE_MEMORY;
    char *host = some_host(&side), *second = some_host(&other);
    CUdeviceptr to = some_device(), from = some_device();
    CUstream stream = target.stream;
    if (kind == HTOH) {
        side = side == PAGEABLE_MEMORY ? side : other;
        to = (CUdeviceptr)host;
        from = (CUdeviceptr)second;
    } else if (kind == HTOD) {
        from = (CUdeviceptr)host;
    } else if (kind == DTOH) {
        to = (CUdeviceptr)host;
    } else {
        side = NO_HOST_MEMORY;
    }
    if (kind == PTOP) {
        struct place *peer = &places[roll(contexts_used)];
        CUdeviceptr theirs = me.own[peer - places].device;
        if (async)
            CU_ON(target, cuMemcpyPeerAsync, cuMemcpyPeerAsync, _ptsz,
                  (theirs, peer->context, mine()->device, me.place->context, bytes, stream));
        else
            CU_ON(target, cuMemcpyPeer, cuMemcpyPeer, _ptds,
                  (theirs, peer->context, mine()->device, me.place->context, bytes));
    } else if (untyped || kind == HTOH) {
        if (async)
            CU_ON(target, cuMemcpyAsync, cuMemcpyAsync, _ptsz, (to, from, bytes, stream));
        else
            CU_ON(target, cuMemcpy, cuMemcpy, _ptds, (to, from, bytes));
    } else if (kind == HTOD) {
        if (async)
            CU_ON(target, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, _ptsz, (to, host, bytes, stream));
        else
            CU_ON(target, cuMemcpyHtoD, cuMemcpyHtoD_v2, _ptds, (to, host, bytes));
    } else if (kind == DTOH) {
        if (async)
            CU_ON(target, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, _ptsz, (host, from, bytes, stream));
        else
            CU_ON(target, cuMemcpyDtoH, cuMemcpyDtoH_v2, _ptds, (host, from, bytes));
    } else {
        if (async)
            CU_ON(target, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, _ptsz, (to, from, bytes, stream));
        else
            CU_ON(target, cuMemcpyDtoD, cuMemcpyDtoD_v2, _ptds, (to, from, bytes));
    }
    count_transfer(kind, side, bytes);
}

static void step_copy(void)
{
    bool async = one_in(2);
    struct target target = async ? any_target() : target_of(NULL, one_in(2));
    // A copy, unlike a launch, may use a stream of another context (CUDA programming guide, "Stream and Event
    // Behavior").
    if (async && contexts_used > 1 && one_in(8))
        target = target_of(me.own[roll(CONTEXTS)].streams[roll(OWN_STREAMS)], target.per_thread);
    target_enter(target);
    for (int left = 1 + roll(3); left > 0; left--)
        copy((enum transfer)roll(MEMSET), async, one_in(4), target, some_bytes());
    target_leave(target);
}

// Makes a copy that never waits: from or to page-locked memory, or inside the device.
static void copy_async(struct target target)
{
    size_t bytes = 1 + (size_t)roll(1 << 16);
    CUdeviceptr at = mine()->device;
    char *host = mine()->pinned;
    enum transfer kind = (enum transfer)roll(3);
    if (kind == HTOD)
        CU_ON(target, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, _ptsz, (at, host, bytes, target.stream));
    else if (kind == DTOH)
        CU_ON(target, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, _ptsz, (host, at, bytes, target.stream));
    else
        CU_ON(target, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, _ptsz, (at, at, bytes, target.stream));
    count_transfer(kind, kind == DTOD ? NO_HOST_MEMORY : PINNED_MEMORY, bytes);
}

// Returns the number of bytes set.
static size_t set_device(bool async, struct target target, CUdeviceptr at, size_t bytes)
{
    int element = roll(3);
    size_t count = bytes >> element;
    if (element == 0 && async)
        CU_ON(target, cuMemsetD8Async, cuMemsetD8Async, _ptsz, (at, 7, count, target.stream));
    else if (element == 0)
        CU_ON(target, cuMemsetD8, cuMemsetD8_v2, _ptds, (at, 7, count));
    else if (element == 1 && async)
        CU_ON(target, cuMemsetD16Async, cuMemsetD16Async, _ptsz, (at, 7, count, target.stream));
    else if (element == 1)
        CU_ON(target, cuMemsetD16, cuMemsetD16_v2, _ptds, (at, 7, count));
    else if (async)
        CU_ON(target, cuMemsetD32Async, cuMemsetD32Async, _ptsz, (at, 7, count, target.stream));
    else
        CU_ON(target, cuMemsetD32, cuMemsetD32_v2, _ptds, (at, 7, count));
    return count << element;
}

static void step_set(void)
{
    bool async = one_in(2);
    struct target target = async ? any_target() : target_of(NULL, one_in(2));
    target_enter(target);
    count_transfer(MEMSET, NO_HOST_MEMORY, set_device(async, target, some_device(), some_bytes()));
    target_leave(target);
}

// ---- memory ----

static void release(struct block *block)
{
    struct target target = any_target();
    void *address = block->address;
    bool on_device = block->memory <= POOL;
    if (block->memory == PINNED) {
        CU(cuMemFreeHost, cuMemFreeHost, (address));
    } else if (block->memory == REGISTERED) {
        CU(cuMemHostUnregister, cuMemHostUnregister, (address));
        free(address);
    } else if (on_device && block->memory != MANAGED && block->place == me.place && one_in(2)) {
        target_enter(target);
        CU_ON(target, cuMemFreeAsync, cuMemFreeAsync, _ptsz, ((CUdeviceptr)address, target.stream));
        target_leave(target);
    } else {
        CU(cuMemFree, cuMemFree_v2, ((CUdeviceptr)address));
    }
    atomic_fetch_add(&freed[block->memory], 1);
    block->address = NULL;
}

static void allocate(struct block *block)
{
    enum memory memory = (enum memory)roll(MEMORY_KINDS);
    size_t bytes = 1 + (size_t)roll(1 << 20);
    struct target target = any_target();
    CUdeviceptr address = 0;
    void *host = NULL;
    if (memory == DEVICE) {
        CU(cuMemAlloc, cuMemAlloc_v2, (&address, bytes));
    } else if (memory == MANAGED) {
        CU(cuMemAllocManaged, cuMemAllocManaged, (&address, bytes, CU_MEM_ATTACH_GLOBAL));
    } else if (memory == POOL) {
        target_enter(target);
        CU_ON(target, cuMemAllocAsync, cuMemAllocAsync, _ptsz, (&address, bytes, target.stream));
        target_leave(target);
    } else if (memory == PINNED && one_in(2)) {
        CU(cuMemAllocHost, cuMemAllocHost_v2, (&host, bytes));
    } else if (memory == PINNED) {
        CU(cuMemHostAlloc, cuMemHostAlloc, (&host, bytes, CU_MEMHOSTALLOC_PORTABLE));
    } else {
        REQUIRE((host = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095)) != NULL);
        CU(cuMemHostRegister, cuMemHostRegister_v2, (host, bytes, 0));
    }
    atomic_fetch_add(&allocated[memory], 1);
    *block = (struct block){memory, host != NULL ? host : (void *)address, me.place};
}

static void step_memory(void)
{
    for (int left = 1 + roll(4); left > 0; left--) {
        struct block *block = &me.blocks[roll(BLOCKS)];
        if (block->address != NULL)
            release(block);
        else
            allocate(block);
    }
}

// ---- order ----

static CUevent some_event(void)
{
    return one_in(3) ? me.place->events[roll(SHARED_EVENTS)] : mine()->events[roll(OWN_EVENTS)];
}

static void record(CUevent event, struct target target)
{
    if (one_in(4))
        CU_ON(target, cuEventRecordWithFlags, cuEventRecordWithFlags, _ptsz, (event, target.stream, 0));
    else
        CU_ON(target, cuEventRecord, cuEventRecord, _ptsz, (event, target.stream));
}

static void wait_for(CUevent event, struct target target)
{
    CU_ON(target, cuStreamWaitEvent, cuStreamWaitEvent, _ptsz, (target.stream, event, 0));
}

static void step_event(void)
{
    struct target target = any_target();
    target_enter(target);
    if (one_in(2))
        record(some_event(), target);
    else
        // The event may also belong to another context.
        wait_for(one_in(4) ? places[roll(contexts_used)].events[0] : some_event(), target);
    target_leave(target);
}

static void synchronize_context(void)
{
    side_enter(&me.place->whole, OTHERS);
    CU(cuCtxSynchronize, cuCtxSynchronize, ());
    side_leave(&me.place->whole, OTHERS);
}

static void step_synchronize(void)
{
    struct target target = any_target();
    switch (roll(4)) {
    case 0:
        synchronize_context();
        break;
    case 1:
        CU(cuEventSynchronize, cuEventSynchronize, (some_event()));
        break;
    default:
        target_enter(target);
        CU_ON(target, cuStreamSynchronize, cuStreamSynchronize, _ptsz, (target.stream));
        target_leave(target);
    }
}

static void step_pause(void)
{
    pause_us(1 + (unsigned)roll(one_in(10) ? 12000 : 800));
}

// ---- handles that come and go ----

static void make_stream(int place)
{
    struct own *own = mine();
    own->flags[place] = one_in(2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    if (one_in(2))
        CU(cuStreamCreate, cuStreamCreate, (&own->streams[place], own->flags[place]));
    else
        CU(cuStreamCreateWithPriority, cuStreamCreateWithPriority, (&own->streams[place], own->flags[place], -1));
}

static void make_event(int place)
{
    unsigned flags = one_in(2) ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    CU(cuEventCreate, cuEventCreate, (&mine()->events[place], flags));
}

static void step_handles(void)
{
    if (one_in(3)) {
        int place = roll(OWN_EVENTS);
        CU(cuEventDestroy, cuEventDestroy_v2, (mine()->events[place]));
        make_event(place);
        return;
    }
    int place = roll(OWN_STREAMS);
    CUstream stream = mine()->streams[place];
    // Work that is still on it runs to its end.
    if (one_in(2))
        launch(roll(KERNELS), target_of(stream, false));
    CU(cuStreamDestroy, cuStreamDestroy_v2, (stream));
    make_stream(place);
}

static void step_switch(void)
{
    me.place = &places[roll(contexts_used)];
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (me.place->context));
}

// ---- waits that only the program can end ("gates") ----

// Work waits for a value in memory that this thread writes later. Meanwhile the thread does nothing that could wait for
// it.
static void step_gate(void)
{
    struct own *own = mine();
    int place = roll(OWN_STREAMS);
    struct target target = target_of(own->streams[place], one_in(2));
    // Each gate has a word of its own: a late write for one gate must not undo what opened the next.
    volatile uint32_t *word = &own->words[own->gates++ % GATES];
    *word = 0;
    CU_ON(target, cuStreamWaitValue32, cuStreamWaitValue32_v2, _ptsz,
          (target.stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int left = 1 + roll(8); left > 0; left--) {
        if (one_in(4))
            copy_async(target);
        else if (one_in(4))
            count_transfer(MEMSET, NO_HOST_MEMORY, set_device(true, target, own->device, 4096));
        else if (one_in(4))
            record(own->events[0], target);
        else
            launch(roll(KERNELS), target);
    }
    if (one_in(4))
        burst(target);
    if (one_in(2))
        pause_us((unsigned)roll(3000));
    // A blocking stream could be behind the legacy one, and that one behind the gate; and where streams share hardware
    // queues, any stream could be.
    const char *assume = getenv("SIMCUDA_ASSUME");
    bool by_stream = assume != NULL && strstr(assume, "connections=streams") != NULL;
    int opener = roll(OWN_STREAMS);
    if (by_stream && opener != place && own->flags[opener] == CU_STREAM_NON_BLOCKING)
        CU(cuStreamWriteValue32, cuStreamWriteValue32_v2, (own->streams[opener], (CUdeviceptr)word, 1, 0));
    else
        *word = 1;
    if (one_in(2))
        CU_ON(target, cuStreamSynchronize, cuStreamSynchronize, _ptsz, (target.stream));
}

#include "random_memory.h"
#include "random_wide.h"
#include "random_deep.h"

// ---- captures ----

// What a capture of this thread may consist of: a stream of its own, and one more that joins it.
struct capture {
    CUstreamCaptureMode mode;
    struct target target;
    bool blocking;
    int origin, fork, outside;
    long kernels;
};

static void capture_enter(struct capture *capture)
{
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
        CHECK(pthread_rwlock_unlock(&world));
        CHECK(pthread_rwlock_wrlock(&world));
    }
    side_enter(&me.place->whole, CAPTURES);
    if (capture->blocking)
        side_enter(&me.place->legacy, CAPTURES);
}

static void capture_leave(struct capture *capture)
{
    if (capture->blocking)
        side_leave(&me.place->legacy, CAPTURES);
    side_leave(&me.place->whole, CAPTURES);
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
        CHECK(pthread_rwlock_unlock(&world));
        CHECK(pthread_rwlock_rdlock(&world));
    }
}

// Captured copies and memsets are no transfers: they become nodes of the graph.
static void capture_some(struct capture *capture, struct target target)
{
    struct own *own = mine();
    for (int left = 1 + roll(6); left > 0; left--) {
        if (one_in(5)) {
            CU_ON(target, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, _ptsz,
                  (own->device, own->pinned, 1 + (size_t)roll(1 << 15), target.stream));
        } else if (one_in(5)) {
            set_device(true, target, own->device, 1 + (size_t)roll(1 << 15));
        } else if (with_memory && one_in(4)) {
            // Memory of the graph.
            CUdeviceptr block;
            CU_ON(target, cuMemAllocAsync, cuMemAllocAsync, _ptsz, (&block, 1 + (size_t)roll(1 << 20), target.stream));
            set_device(true, target, block, 1);
            CU_ON(target, cuMemFreeAsync, cuMemFreeAsync, _ptsz, (block, target.stream));
        } else if (wide && one_in(4)) {
            launch_overlapping(roll(6), target);
            capture->kernels++;
        } else {
            launch_kernel(roll(6), target);
            capture->kernels++;
        }
    }
}

// Does work of the same thread that is not part of the capture, which every mode allows.
static void work_outside(struct capture *capture)
{
    struct target target = target_of(mine()->streams[capture->outside], one_in(2));
    if (one_in(4))
        burst(target);
    else
        launch(roll(KERNELS), target);
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED && one_in(2)) {
        CUdeviceptr block;
        CU(cuMemAlloc, cuMemAlloc_v2, (&block, 4096));
        CU(cuMemFree, cuMemFree_v2, (block));
        atomic_fetch_add(&allocated[DEVICE], 1);
        atomic_fetch_add(&freed[DEVICE], 1);
    }
}

// Does what the thread's own mode allows at this point.
static void work_relaxed(struct capture *capture)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct target target = target_of(mine()->streams[capture->outside], one_in(2));
    CUdeviceptr block;
    CHECK(cuThreadExchangeStreamCaptureMode(&relaxed));
    launch(roll(KERNELS), target);
    CU_ON(target, cuStreamSynchronize, cuStreamSynchronize, _ptsz, (target.stream));
    CU(cuMemAlloc, cuMemAlloc_v2, (&block, 4096));
    atomic_fetch_add(&allocated[DEVICE], 1);
    CHECK(cuThreadExchangeStreamCaptureMode(&relaxed));
    REQUIRE(relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void begin_capture(struct capture *capture, bool to_graph)
{
    CUgraph graph;
    if (to_graph) {
        CHECK(cuGraphCreate(&graph, 0));
        CU_ON(capture->target, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, _ptsz,
              (capture->target.stream, graph, NULL, NULL, 0, capture->mode));
    } else {
        CU_ON(capture->target, cuStreamBeginCapture, cuStreamBeginCapture_v2, _ptsz,
              (capture->target.stream, capture->mode));
    }
}

static void launch_graph(struct capture *capture, CUgraph graph)
{
    CUgraphExec executable;
    int how = roll(3);
    if (how == 0) {
        CU(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (&executable, graph, 0));
    } else if (how == 1) {
        CU(cuGraphInstantiate, cuGraphInstantiate_v2, (&executable, graph, NULL, NULL, 0));
    } else {
        CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {0};
        CU_ON(capture->target, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, _ptsz,
              (&executable, graph, &parameters));
    }
    for (int left = 1 + roll(6); left > 0; left--) {
        struct target target = any_target();
        target_enter(target);
        CU_ON(target, cuGraphLaunch, cuGraphLaunch, _ptsz, (executable, target.stream));
        if (one_in(3))
            launch(roll(KERNELS), target);
        target_leave(target);
        atomic_fetch_add(&in_graphs, capture->kernels);
    }
    // A graph launch in progress runs to its end.
    CU(cuGraphExecDestroy, cuGraphExecDestroy, (executable));
}

static void step_capture(void)
{
    struct own *own = mine();
    struct capture capture = {.mode = (CUstreamCaptureMode)roll(3), .origin = roll(OWN_STREAMS)};
    capture.fork = (capture.origin + 1) % OWN_STREAMS;
    capture.outside = (capture.origin + 2) % OWN_STREAMS;
    bool own_default = one_in(4), forks = one_in(3), breaks = capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && one_in(6);
    capture.target = own_default ? target_of(one_in(2) ? NULL : CU_STREAM_PER_THREAD, true)
                                 : target_of(own->streams[capture.origin], one_in(2));
    capture.blocking = own_default || own->flags[capture.origin] == CU_STREAM_DEFAULT || forks;
    CUevent fork, join;
    CU(cuEventCreate, cuEventCreate, (&fork, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate, cuEventCreate, (&join, CU_EVENT_DISABLE_TIMING));
    capture_enter(&capture);
    begin_capture(&capture, wide && !breaks && driver_version >= 12030 && one_in(3));
    capture_some(&capture, capture.target);
    if (one_in(3))
        FAILS(cuStreamBeginCapture_v2_ptsz(capture.target.stream, capture.mode));
    if (one_in(2))
        work_outside(&capture);
    if (wide && one_in(3))
        work_relaxed(&capture);
    if (forks) {
        struct target side = target_of(own->streams[capture.fork], one_in(2));
        record(fork, capture.target);
        wait_for(fork, side);
        capture_some(&capture, side);
        record(join, side);
        wait_for(join, capture.target);
        capture_some(&capture, capture.target);
    }
    atomic_fetch_add(&captured, capture.kernels);
    CUgraph graph = NULL;
    if (breaks) {
        // Not allowed at this point, and it would end the capture (cuThreadExchangeStreamCaptureMode).
        CUdeviceptr block;
        uint64_t nothing = 0;
        void *arguments[] = {&nothing};
        FAILS(cuMemAlloc_v2(&block, 4096));
        FAILS(cuLaunchKernel_ptsz(me.place->kernels[0], 1, 1, 1, 32, 1, 1, 0, capture.target.stream, arguments, NULL));
        FAILS(cuStreamEndCapture_ptsz(capture.target.stream, &graph));
        REQUIRE(graph == NULL);
    } else {
        CU_ON(capture.target, cuStreamEndCapture, cuStreamEndCapture, _ptsz, (capture.target.stream, &graph));
    }
    capture_leave(&capture);
    CU(cuEventDestroy, cuEventDestroy_v2, (fork));
    CU(cuEventDestroy, cuEventDestroy_v2, (join));
    if (graph != NULL) {
        launch_graph(&capture, graph);
        CHECK(cuGraphDestroy(graph));
    }
}

// ---- calls that must fail ----

// Makes a call with a handle of something that is gone, or never existed. Where the driver would end the program, it
// makes none.
#define FAILS_STALE(call) \
    do { \
        const char *assumed = getenv("SIMCUDA_ASSUME"); \
        if (assumed == NULL || strstr(assumed, "stale_handles=crash") == NULL) \
            FAILS(call); \
    } while (0)

// Uses the handle of a destroyed stream, which the next created stream gets.
static void use_a_dead_stream(void)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    unsigned first = one_in(2) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    CUstream stream, next;
    CHECK(pthread_rwlock_unlock(&world));
    CHECK(pthread_rwlock_wrlock(&world)); // otherwise another thread's new stream could get the handle
    CU(cuStreamCreate, cuStreamCreate, (&stream, first));
    CU(cuStreamDestroy, cuStreamDestroy_v2, (stream));
    FAILS_STALE(cuLaunchKernel(me.place->kernels[0], 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    CU(cuStreamCreate, cuStreamCreate, (&next, CU_STREAM_NON_BLOCKING - first));
    CHECK(pthread_rwlock_unlock(&world));
    CHECK(pthread_rwlock_rdlock(&world));
    launch(roll(KERNELS), target_of(next, one_in(2)));
    launch(roll(KERNELS), target_of(next, one_in(2)));
    CU(cuStreamDestroy, cuStreamDestroy_v2, (next));
}

static void step_failure(void)
{
    struct target target = target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2));
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUdeviceptr block;
    CUgraph graph;
    CUstream stream;
    CUstream nowhere = (CUstream)(uintptr_t)0xdead0000;
    switch (roll(13)) {
    case 0:
        FAILS(cuMemAlloc_v2(&block, (size_t)1 << 50));
        break;
    case 1:
        FAILS(cuLaunchKernel(me.place->kernels[0], 1, 1, 1, 4096, 1, 1, 0, target.stream, arguments, NULL));
        break;
    case 2:
        FAILS_STALE(cuLaunchKernel(me.place->kernels[0], 1, 1, 1, 32, 1, 1, 0, nowhere, arguments, NULL));
        break;
    case 3:
        FAILS_STALE(cuMemcpyHtoDAsync_v2(mine()->device, me.pageable, 2 * BUFFER_BYTES, nowhere));
        break;
    case 4:
        FAILS(cuMemcpyDtoHAsync_v2(me.pageable, mine()->device + BUFFER_BYTES - 1, 2, target.stream));
        break;
    case 5:
        FAILS(cuMemFree_v2((CUdeviceptr)0x1234));
        break;
    case 6:
        FAILS(cuMemFreeHost(me.pageable + 1));
        break;
    case 7:
        FAILS_STALE(cuEventRecord((CUevent)(uintptr_t)0xdead0000, target.stream));
        break;
    case 8:
        FAILS_STALE(cuStreamWaitEvent(target.stream, (CUevent)(uintptr_t)0xdead0000, 0));
        break;
    case 9:
        FAILS(cuStreamEndCapture(target.stream, &graph));
        break;
    case 10:
        FAILS_STALE(cuGraphLaunch((CUgraphExec)(uintptr_t)0xdead0000, target.stream));
        break;
    case 11:
        FAILS(cuStreamCreate(&stream, 77));
        FAILS_STALE(cuStreamSynchronize(nowhere));
        FAILS(cuMemsetD8Async((CUdeviceptr)0x1234, 0, 16, target.stream));
        FAILS(cuDevicePrimaryCtxReset_v2(99));
        FAILS_STALE(cuCtxDestroy_v2((CUcontext)(uintptr_t)0xdead0000));
        break;
    default:
        use_a_dead_stream();
    }
}

// ---- a context owned by one thread ----

static CUlibrary library;

static void load_kernels(CUfunction kernels[])
{
    CUmodule module;
    char *ptx = ptx_module(kernel_names, KERNELS);
    CU(cuModuleLoadData, cuModuleLoadData, (&module, ptx));
    free(ptx);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        CU(cuModuleGetFunction, cuModuleGetFunction, (&kernels[kernel], module, kernel_names[kernel]));
    // A launch accepts a CUkernel in place of a CUfunction (cuda.h, cuLaunchKernel).
    for (int kernel = KERNELS; kernel < KERNELS + KERNEL_HANDLES; kernel++)
        CU(cuLibraryGetKernel, cuLibraryGetKernel, ((CUkernel *)&kernels[kernel], library, kernel_names[kernel]));
}

static void step_context(void)
{
    if (me.had_a_context)
        return;
    me.had_a_context = true;
    struct place *before = me.place;
    struct place own = {0};
    CUdeviceptr block;
    sides_init(&own.whole);
    sides_init(&own.legacy);
    CU(cuCtxCreate, cuCtxCreate_v2, (&own.context, 0, device));
    load_kernels(own.kernels);
    CU(cuStreamCreate, cuStreamCreate, (&own.shared[0], CU_STREAM_DEFAULT));
    CU(cuMemAlloc, cuMemAlloc_v2, (&block, 65536));
    atomic_fetch_add(&allocated[DEVICE], 1);
    me.place = &own;
    for (int left = 5 + roll(40); left > 0; left--) {
        struct target target = one_in(2) ? target_of(own.shared[0], false) : target_of(NULL, one_in(2));
        if (one_in(4))
            count_transfer(MEMSET, NO_HOST_MEMORY, set_device(true, target, block, 32768));
        else
            launch(roll(KERNELS + KERNEL_HANDLES), target);
    }
    if (one_in(2)) {
        CU(cuMemFree, cuMemFree_v2, (block));
        atomic_fetch_add(&freed[DEVICE], 1);
    }
    if (one_in(2))
        CU(cuCtxSynchronize, cuCtxSynchronize, ());
    // Also a context that is not current any more.
    CUcontext popped = own.context;
    if (wide && one_in(2))
        CHECK(cuCtxPopCurrent_v2(&popped));
    CU(cuCtxDestroy, cuCtxDestroy_v2, (popped));
    me.place = before;
}

// ---- the program ----

static void (*const steps[])(void) = {
    step_launch,  step_launch,  step_launch, step_launch,      step_launch,      step_burst, step_copy,   step_copy,
    step_copy,    step_set,     step_memory, step_memory,      step_event,       step_event, step_event,  step_synchronize,
    step_handles, step_handles, step_pause,  step_pause,       step_switch,      step_gate,  step_gate,   step_capture,
    step_capture, step_failure, step_failure, step_synchronize, step_context,
};

static void (*const wide_steps[])(void) = {
    step_chain, step_chain, step_chain, step_graph, step_push, step_across, step_across, step_ask, step_ask, step_capture,
    step_runtime, step_runtime, step_move, step_move, step_cooperative,
};

static void (*const deep_steps[])(void) = {
    step_deep, step_deep, step_deep, step_deep, step_launch, step_capture, step_chain, step_event, step_synchronize, step_pause,
};

static void (*const memory_steps[])(void) = {
    step_pitched, step_pool, step_pool, step_virtual, step_virtual, step_virtual, step_array, step_array, step_external,
    step_graph_blocks, step_graph_blocks,
};

#define ANY_OF(steps) (steps)[roll((int)(sizeof(steps) / sizeof *(steps)))]

static uint64_t seed;
static int steps_each = 50, phase;

static void set_up(struct place *place)
{
    struct own *own = &me.own[place - places];
    me.place = place;
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (place->context));
    for (int stream = 0; stream < OWN_STREAMS; stream++)
        make_stream(stream);
    for (int event = 0; event < OWN_EVENTS; event++)
        make_event(event);
    CU(cuMemAlloc, cuMemAlloc_v2, (&own->device, BUFFER_BYTES));
    CU(cuMemAllocManaged, cuMemAllocManaged, (&own->managed, BUFFER_BYTES, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemAllocHost, cuMemAllocHost_v2, ((void **)&own->pinned, BUFFER_BYTES));
    CU(cuMemHostAlloc, cuMemHostAlloc, ((void **)&own->words, GATES * sizeof *own->words, CU_MEMHOSTALLOC_DEVICEMAP));
    atomic_fetch_add(&allocated[DEVICE], 1);
    atomic_fetch_add(&allocated[MANAGED], 1);
    atomic_fetch_add(&allocated[PINNED], 2);
    if (wide) {
        CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = ARRAY_WIDTH, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
        CU(cuArray3DCreate, cuArray3DCreate_v2, (&own->line, &shape));
        shape.Height = ARRAY_HEIGHT;
        CU(cuArray3DCreate, cuArray3DCreate_v2, (&own->plane, &shape));
    }
}

static void *run_thread(void *index)
{
    me.random = seed * 0x100000001B3u + (uint64_t)(intptr_t)index + 1 + (uint64_t)phase * 1000;
    CHECK(pthread_rwlock_rdlock(&world));
    for (int place = 0; place < contexts_used; place++)
        set_up(&places[place]);
    me.pageable = calloc(1, BUFFER_BYTES);
    REQUIRE((me.registered = aligned_alloc(4096, BUFFER_BYTES)) != NULL);
    CU(cuMemHostRegister, cuMemHostRegister_v2, (me.registered, BUFFER_BYTES, CU_MEMHOSTREGISTER_PORTABLE));
    atomic_fetch_add(&allocated[REGISTERED], 1);
    step_switch();
    CHECK(pthread_rwlock_unlock(&world));
    for (int step = 0; step < steps_each; step++) {
        CHECK(pthread_rwlock_rdlock(&world));
        if (with_memory && one_in(3))
            ANY_OF(memory_steps)();
        else if (deep && one_in(2))
            ANY_OF(deep_steps)();
        else if (wide && one_in(3))
            ANY_OF(wide_steps)();
        else
            ANY_OF(steps)();
        CHECK(pthread_rwlock_unlock(&world));
    }
    CHECK(pthread_rwlock_rdlock(&world));
    if (one_in(2))
        for (int place = 0; place < BLOCKS; place++)
            if (me.blocks[place].address != NULL)
                release(&me.blocks[place]);
    CHECK(pthread_rwlock_unlock(&world));
    return NULL;
}

static void make_place(struct place *place)
{
    sides_init(&place->whole);
    sides_init(&place->legacy);
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (place->context));
    load_kernels(place->kernels);
    me.place = place;
    for (int stream = 0; stream < SHARED_STREAMS; stream++)
        CU(cuStreamCreate, cuStreamCreate,
           (&place->shared[stream], one_in(2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    for (int event = 0; event < SHARED_EVENTS; event++)
        CU(cuEventCreate, cuEventCreate, (&place->events[event], CU_EVENT_DISABLE_TIMING));
    // Loading is not allowed in every capture, and a first launch may load.
    launch(0, target_of(place->shared[0], false));
    launch(KERNELS, target_of(place->shared[0], false));
}

// Creates contexts and the threads that work in them, and ends the contexts unless they are to be used again.
static void run_phase(int threads, int retains, CUcontext kept[CONTEXTS])
{
    for (int place = 0; place < contexts_used; place++)
        places[place] = (struct place){.context = kept[place]};
    for (int left = retains; left > 0; left--)
        CU(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (&places[0].context, device));
    if (contexts_used > 1 && kept[1] == NULL)
        CU(cuCtxCreate, cuCtxCreate_v2, (&places[1].context, CU_CTX_SCHED_AUTO, device));
    CU(cuCtxSetCurrent, cuCtxSetCurrent, (places[0].context));
    if (library == NULL) {
        char *ptx = ptx_module(kernel_names + KERNELS, KERNEL_HANDLES);
        CU(cuLibraryLoadData, cuLibraryLoadData, (&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
        free(ptx);
    }
    for (int place = 0; place < contexts_used; place++)
        make_place(&places[place]);
    run_threads(threads, run_thread);
    // Work that is still behind a host function when the program ends never runs, and has no times to compare.
    if (one_in(2) || deep)
        for (int place = 0; place < contexts_used; place++) {
            CU(cuCtxSetCurrent, cuCtxSetCurrent, (places[place].context));
            CU(cuCtxSynchronize, cuCtxSynchronize, ());
        }
    kept[0] = places[0].context;
    kept[1] = places[1].context;
    if (contexts_used > 1 && one_in(2)) {
        CU(cuCtxDestroy, cuCtxDestroy_v2, (places[1].context));
        kept[1] = NULL;
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    seed = strtoull(argv[1], NULL, 0);
    if (argc > 2)
        steps_each = atoi(argv[2]);
    with_memory = argc > 3 && strcmp(argv[3], "memory") == 0;
    deep = argc > 3 && strcmp(argv[3], "deep") == 0;
    wide = with_memory || (argc > 3 && strcmp(argv[3], "wide") == 0);
    me.random = seed;
    int threads = 1 + roll(MAX_THREADS);
    contexts_used = 1 + roll(CONTEXTS);
    pthread_rwlockattr_t attributes;
    CHECK(pthread_rwlockattr_init(&attributes));
    CHECK(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
    CHECK(pthread_rwlock_init(&world, &attributes));
    CU(cuInit, cuInit, (0));
    CU(cuDeviceGet, cuDeviceGet, (&device, 0));
    CHECK(cuDriverGetVersion(&driver_version));
    has_runtime = wide && one_in(2);
    if (has_runtime)
        register_kernels();
    int phases = wide ? 1 + roll(3) : 1, retains = wide ? 1 + roll(2) : 1;
    CUcontext kept[CONTEXTS] = {NULL};
    steps_each /= phases;
    for (bool retained = false; phase < phases; phase++) {
        run_phase(threads, retained ? 0 : retains, kept);
        int end = roll(3);
        if (end == 0)
            for (int left = retains; left > 0; left--)
                CU(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device));
        else if (end == 1)
            CU(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (device));
        // cuda.h: a reset does not release the context; a program may also never release it.
        if (end == 1 && wide && one_in(2))
            for (int left = retains; left > 0; left--)
                CU(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device));
        retained = end == 2;
    }
    print_counts_of(seed, threads);
    return 0;
}
