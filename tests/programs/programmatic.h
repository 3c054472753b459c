// Makes sequences of programmatic launches between ordinary work, on one stream in each of two threads. The including
// file defines `launch_with`, which launches a kernel with attributes. The program records no events except those of
// the launches themselves, so if a sequence is cut, the program did not cause it.
//
// Prints what it did: `programmatic` launches with PROGRAMMATIC_STREAM_SERIALIZATION, `chains`, which are sequences of
// a kernel and all programmatic ones directly after it, `in_chains` launches in those, and `signalling` launches that
// record an event.
#pragma once
#include "driver.h"

enum { THREADS = 2, ROUNDS = 60, LONGEST = 6, BYTES = 4096 };
// A sequence's kernels trigger half-way, early, or not at all before they end.
enum { PLAIN, HALF, EARLY, QUIET, SIGNAL, AFTER, KERNELS };

static const char *const kernel_names[KERNELS] = {"plain_10us", "chain_trigger50_20us", "chain_trigger10_8us",
                                                  "chain_5us",  "signal_trigger30_15us", "after_6us"};
static atomic_long launched[KERNELS], programmatic, chains, in_chains, signalling, copies;

// Launches one kernel with these attributes.
static void launch_with(int kernel, CUstream stream, CUlaunchAttribute *attributes, unsigned count);

struct lane {
    CUstream stream, side;
    CUevent event;
    CUdeviceptr device;
    void *host;
    // The stream's last entry is a kernel that is part of a sequence.
    bool behind_a_kernel, in_a_chain;
};

static void launch_plain(struct lane *lane, int kernel)
{
    launch_with(kernel, lane->stream, NULL, 0);
    atomic_fetch_add(&launched[kernel], 1);
    lane->behind_a_kernel = true;
    lane->in_a_chain = false;
}

static void launch_programmatic(struct lane *lane, int kernel)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmaticStreamSerializationAllowed = 1;
    launch_with(kernel, lane->stream, &attribute, 1);
    atomic_fetch_add(&launched[kernel], 1);
    atomic_fetch_add(&programmatic, 1);
    if (lane->behind_a_kernel) {
        atomic_fetch_add(&in_chains, lane->in_a_chain ? 1 : 2);
        atomic_fetch_add(&chains, lane->in_a_chain ? 0 : 1);
        lane->in_a_chain = true;
    }
    lane->behind_a_kernel = true;
}

// Launches a kernel that records an event of its own, for which another stream waits.
static void launch_signalling(struct lane *lane, bool completion)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    attribute.value.programmaticEvent.event = lane->event;
    if (completion) {
        attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
        attribute.value.launchCompletionEvent.event = lane->event;
    }
    launch_with(SIGNAL, lane->stream, &attribute, 1);
    CHECK(cuStreamWaitEvent(lane->side, lane->event, 0));
    launch_with(AFTER, lane->side, NULL, 0);
    atomic_fetch_add(&launched[SIGNAL], 1);
    atomic_fetch_add(&launched[AFTER], 1);
    atomic_fetch_add(&signalling, 1);
    lane->behind_a_kernel = true;
    lane->in_a_chain = false;
}

static void copy(struct lane *lane)
{
    CHECK(cuMemcpyHtoDAsync(lane->device, lane->host, BYTES, lane->stream));
    atomic_fetch_add(&copies, 1);
    lane->behind_a_kernel = lane->in_a_chain = false;
}

static CUcontext context;

static void *run_lane(void *index)
{
    struct lane lane = {0};
    CHECK(cuCtxSetCurrent(context));
    lane.stream = new_stream();
    lane.side = new_stream();
    CHECK(cuEventCreate(&lane.event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&lane.device, BYTES));
    CHECK(cuMemHostAlloc(&lane.host, BYTES, 0));
    for (int round = (int)(intptr_t)index; round < ROUNDS + (int)(intptr_t)index; round++) {
        for (int left = round % 3; left > 0; left--)
            launch_plain(&lane, PLAIN);
        if (round % 4 == 0)
            copy(&lane);
        // Some programs launch every kernel this way, also the first of a sequence: after a copy it waits like any
        // other.
        if (round % 5 < 2)
            launch_programmatic(&lane, HALF);
        else
            launch_plain(&lane, HALF);
        for (int left = 1 + round % (LONGEST - 1); left > 0; left--)
            launch_programmatic(&lane, HALF + (round + left) % 3);
        if (round % 6 == 5)
            launch_signalling(&lane, round % 12 == 5);
        if (round % 4 != 1)
            continue;
        // A launch after a synchronization has nothing to overlap.
        CHECK(cuStreamSynchronize(lane.stream));
        launch_plain(&lane, PLAIN);
        if (round % 8 == 1)
            pause_us(300);
    }
    CHECK(cuStreamSynchronize(lane.stream));
    CHECK(cuStreamSynchronize(lane.side));
    CHECK(cuMemFreeHost(lane.host));
    CHECK(cuMemFree(lane.device));
    CHECK(cuEventDestroy(lane.event));
    CHECK(cuStreamDestroy(lane.stream));
    CHECK(cuStreamDestroy(lane.side));
    return NULL;
}

static void run_chains(const char *program)
{
    long launches = 0;
    CHECK(cuCtxGetCurrent(&context));
    run_threads(THREADS, run_lane);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        launches += atomic_load(&launched[kernel]);
    printf("{\"program\":\"%s\",\"launches\":%ld,\"programmatic\":%ld,\"chains\":%ld,\"in_chains\":%ld,\"signalling\":%ld,"
           "\"copies\":%ld,\"kernels\":{",
           program, launches, programmatic, chains, in_chains, signalling, copies);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%s\"%s\":%ld", kernel ? "," : "", kernel_names[kernel], atomic_load(&launched[kernel]));
    printf("}}\n");
}
