// What a random program (random_program.c) does with the argument `wide`: programmatic launches, graphs built and
// changed by hand, contexts pushed and popped, queries, and the runtime in every other program. It is an argument of
// its own because a seed that once found a bug stands for the program that it makes without it.
#pragma once
#include "random_runtime.h"
#include "random_world.h"

static bool wide;
// The version that cuDriverGetVersion returns.
static int driver_version;

#include "random_copies.h"

// ---- programmatic launches ----

// The only event that launches may record themselves: one without timing.
static CUevent signal_event(void)
{
    struct own *own = mine();
    if (own->signal == NULL)
        CU(cuEventCreate, cuEventCreate, (&own->signal, CU_EVENT_DISABLE_TIMING));
    return own->signal;
}

static void launch_attributed(int kernel, struct target target, CUlaunchAttribute *attributes, unsigned count)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
    config.hStream = target.stream;
    config.attrs = attributes;
    config.numAttrs = count;
    CU_ON(target, cuLaunchKernelEx, cuLaunchKernelEx, _ptsz, (&config, me.place->kernels[kernel], arguments, NULL));
}

static void launch_overlapping(int kernel, struct target target)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmaticStreamSerializationAllowed = !one_in(8);
    launch_attributed(kernel, target, &attribute, 1);
}

static void launch_signalling(int kernel, struct target target)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    if (one_in(2)) {
        attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
        attribute.value.launchCompletionEvent.event = signal_event();
    } else {
        attribute.value.programmaticEvent.event = signal_event();
        attribute.value.programmaticEvent.triggerAtBlockStart = roll(2);
    }
    launch_attributed(kernel, target, &attribute, 1);
}

static void step_chain(void)
{
    struct target target = any_target();
    target_enter(target);
    for (int left = 2 + roll(10); left > 0; left--) {
        int kernel = roll(KERNELS + KERNEL_HANDLES);
        if (one_in(8)) {
            launch_signalling(kernel, target);
            wait_for(signal_event(), target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2)));
        } else if (one_in(5)) {
            launch_kernel(kernel, target);
        } else {
            launch_overlapping(kernel, target);
        }
        atomic_fetch_add(&launched[kernel], 1);
        if (one_in(12))
            copy_async(target);
        if (one_in(12))
            record(signal_event(), target);
        if (one_in(20))
            pause_us(1 + (unsigned)roll(200));
    }
    target_leave(target);
}

// ---- graphs built by hand ----

enum { NODES = 6 };

struct by_hand {
    CUgraph graph;
    CUgraphNode nodes[NODES];
    bool is_kernel[NODES];
    int count, kernels;
};

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_node(int kernel)
{
    static uint64_t nothing;
    static void *arguments[] = {&nothing};
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = me.place->kernels[kernel], .ctx = me.place->context};
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.blockDimX = 32;
    parameters.kernelParams = arguments;
    return parameters;
}

static void add_kernel(struct by_hand *made, const CUgraphNode *before, size_t count)
{
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = kernel_node(roll(KERNELS));
    CHECK(cuGraphAddKernelNode_v2(&made->nodes[made->count], made->graph, before, count, &parameters));
    made->is_kernel[made->count++] = true;
    made->kernels++;
}

static void add_set(struct by_hand *made, const CUgraphNode *before, size_t count)
{
    CUDA_MEMSET_NODE_PARAMS parameters = {.dst = mine()->device, .value = 7, .elementSize = 1, .height = 1};
    parameters.width = 1 + (size_t)roll(1 << 14);
    CHECK(cuGraphAddMemsetNode(&made->nodes[made->count++], made->graph, before, count, &parameters, me.place->context));
}

static void add_copy(struct by_hand *made, const CUgraphNode *before, size_t count)
{
    CUDA_MEMCPY3D_v2 parameters = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = mine()->pinned};
    parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.dstDevice = mine()->device;
    parameters.WidthInBytes = 1 + (size_t)roll(1 << 14);
    parameters.Height = parameters.Depth = 1;
    CHECK(cuGraphAddMemcpyNode(&made->nodes[made->count++], made->graph, before, count, &parameters, me.place->context));
}

static void make_by_hand(struct by_hand *made, bool with_child)
{
    *made = (struct by_hand){0};
    CHECK(cuGraphCreate(&made->graph, 0));
    for (int left = 1 + roll(NODES); left > 0; left--) {
        CUgraphNode before[NODES];
        size_t count = 0;
        for (int node = 0; node < made->count; node++)
            if (one_in(2))
                before[count++] = made->nodes[node];
        int kind = roll(6);
        if (kind == 0) {
            add_set(made, before, count);
        } else if (kind == 1) {
            add_copy(made, before, count);
        } else if (kind == 2 && with_child) {
            // The node contains a copy of its graph.
            struct by_hand child;
            make_by_hand(&child, false);
            CHECK(cuGraphAddChildGraphNode(&made->nodes[made->count++], made->graph, before, count, child.graph));
            CHECK(cuGraphDestroy(child.graph));
            made->kernels += child.kernels;
        } else {
            add_kernel(made, before, count);
        }
    }
}

static void launch_by_hand(CUgraphExec executable, int kernels)
{
    for (int left = 1 + roll(3); left > 0; left--) {
        struct target target = any_target();
        target_enter(target);
        CU_ON(target, cuGraphLaunch, cuGraphLaunch, _ptsz, (executable, target.stream));
        target_leave(target);
        atomic_fetch_add(&in_graphs, kernels);
    }
}

static void step_graph(void)
{
    struct by_hand made;
    CUgraphExec executable;
    make_by_hand(&made, one_in(2));
    CU(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (&executable, made.graph, 0));
    launch_by_hand(executable, made.kernels);
    int node = roll(made.count);
    if (made.is_kernel[node] && one_in(2)) {
        CUDA_KERNEL_NODE_PARAMS_v2 parameters = kernel_node(roll(KERNELS));
        CHECK(cuGraphExecKernelNodeSetParams_v2(executable, made.nodes[node], &parameters));
        launch_by_hand(executable, made.kernels);
    }
    if (made.is_kernel[node] && one_in(2)) {
        CUDA_KERNEL_NODE_PARAMS_v2 parameters = kernel_node(roll(KERNELS));
        CUgraphExecUpdateResultInfo result;
        CHECK(cuGraphKernelNodeSetParams_v2(made.nodes[node], &parameters));
        CHECK(cuGraphExecUpdate_v2(executable, made.graph, &result));
        launch_by_hand(executable, made.kernels);
    }
    CU(cuGraphExecDestroy, cuGraphExecDestroy, (executable));
    CHECK(cuGraphDestroy(made.graph));
}

// ---- contexts ----

static void step_cooperative(void)
{
    struct target target = any_target();
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    target_enter(target);
    for (int left = 1 + roll(4); left > 0; left--) {
        int kernel = roll(KERNELS + KERNEL_HANDLES);
        CU_ON(target, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, _ptsz,
              (me.place->kernels[kernel], 2, 1, 1, 64, 1, 1, 0, target.stream, arguments));
        atomic_fetch_add(&launched[kernel], 1);
    }
    target_leave(target);
}

static void step_push(void)
{
    struct place *before = me.place;
    CUcontext popped;
    me.place = &places[roll(contexts_used)];
    CHECK(cuCtxPushCurrent_v2(me.place->context));
    step_launch();
    CHECK(cuCtxPopCurrent_v2(&popped));
    REQUIRE(popped == me.place->context);
    me.place = before;
}

// ---- order, and queries ----

// Makes work on one stream wait for work on another, which may be of another context.
static void step_across(void)
{
    struct target from = target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2));
    CUevent event = mine()->events[roll(OWN_EVENTS)];
    launch(roll(KERNELS), from);
    record(event, from);
    step_switch();
    struct target to = target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2));
    wait_for(event, to);
    launch(roll(KERNELS), to);
}

static void expect(CUresult result, CUresult also)
{
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY && result != also)
        FAIL("a query returned %d", result);
}

static void step_ask(void)
{
    struct target target = any_target();
    CUevent first = some_event(), second = some_event();
    float elapsed;
    COUNT("cuEventQuery", 1);
    expect(cuEventQuery(first), CUDA_SUCCESS);
    // Most events were not recorded yet, or have no timing.
    CUresult result = cuEventElapsedTime(&elapsed, first, second);
    if (result != CUDA_ERROR_INVALID_VALUE)
        expect(result, CUDA_ERROR_INVALID_HANDLE);
    target_enter(target);
    COUNT("cuStreamQuery", 1);
    expect(target.per_thread ? cuStreamQuery_ptsz(target.stream) : cuStreamQuery(target.stream), CUDA_SUCCESS);
    target_leave(target);
    if (one_in(3))
        return;
    // In both orders, around work of its own.
    struct target own = target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2));
    CU(cuEventCreate, cuEventCreate, (&first, CU_EVENT_DEFAULT));
    CU(cuEventCreate, cuEventCreate, (&second, CU_EVENT_DEFAULT));
    record(first, own);
    launch(roll(KERNELS), own);
    record(second, own);
    if (one_in(2))
        CU(cuEventSynchronize, cuEventSynchronize, (second));
    expect(cuEventElapsedTime(&elapsed, first, second), CUDA_SUCCESS);
    expect(cuEventElapsedTime(&elapsed, second, first), CUDA_ERROR_INVALID_VALUE);
    CU(cuEventDestroy, cuEventDestroy_v2, (first));
    CU(cuEventDestroy, cuEventDestroy_v2, (second));
}
