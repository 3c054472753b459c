// What a random program (random_program.c) does with the argument `memory`, besides everything else: every other way to
// allocate memory, that is, pitched, pools of its own, physical memory and its mappings, arrays, memory of others and
// of graphs. The simulator's truth contains the result.
#pragma once
#include "random_world.h"

#include <sys/mman.h>

static bool with_memory;

enum { UNIT = 2 << 20, RANGE_UNITS = 8, KEPT = 6 };

// The memory of these kinds that a thread holds.
static _Thread_local struct {
    CUmemoryPool pool;
    CUdeviceptr range;
    // By position in the range: what is mapped there and how many units; 0: no mapping starts there.
    CUmemGenericAllocationHandle mapped[RANGE_UNITS];
    int units[RANGE_UNITS];
    CUmemGenericAllocationHandle created[KEPT];
    int created_units[KEPT];
    CUarray arrays[KEPT];
    CUmipmappedArray mipmaps[KEPT];
    // Blocks that graph launches left.
    CUdeviceptr left[KEPT];
} held;

static void step_pitched(void)
{
    CUdeviceptr at;
    size_t pitch;
    CU(cuMemAllocPitch, cuMemAllocPitch_v2, (&at, &pitch, 1 + (size_t)roll(3000), 1 + (size_t)roll(60), 4 << roll(3)));
    if (one_in(3))
        FAILS(cuMemFree_v2(at + 4));
    CU(cuMemFree, cuMemFree_v2, (at));
    atomic_fetch_add(&allocated[DEVICE], 1);
    atomic_fetch_add(&freed[DEVICE], 1);
}

static void step_pool(void)
{
    struct target target = any_target();
    CUdeviceptr first, second;
    if (held.pool == NULL) {
        CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.maxSize = (size_t)64 << 20;
        CU(cuMemPoolCreate, cuMemPoolCreate, (&held.pool, &properties));
    }
    target_enter(target);
    CU_ON(target, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, _ptsz,
          (&first, 1 + (size_t)roll(1 << 20), held.pool, target.stream));
    CU_ON(target, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, _ptsz,
          (&second, 1 + (size_t)roll(1 << 20), held.pool, target.stream));
    FAILS(cuMemAllocFromPoolAsync(&first, (size_t)65 << 20, held.pool, target.stream));
    CU_ON(target, cuMemFreeAsync, cuMemFreeAsync, _ptsz, (second, target.stream));
    target_leave(target);
    if (one_in(2))
        CU(cuMemPoolTrimTo, cuMemPoolTrimTo, (held.pool, (size_t)roll(1 << 20)));
    if (one_in(4)) {
        // The first block outlives its pool.
        CU(cuMemPoolDestroy, cuMemPoolDestroy, (held.pool));
        held.pool = NULL;
    }
    CU(cuMemFree, cuMemFree_v2, (first));
    atomic_fetch_add(&allocated[POOL], 2);
    atomic_fetch_add(&freed[POOL], 2);
}

static void map_some(int kept)
{
    int place = roll(RANGE_UNITS), units = held.created_units[kept];
    bool is_free = place + units <= RANGE_UNITS;
    for (int other = 0; other < RANGE_UNITS; other++)
        if (held.units[other] != 0 && other < place + units && place < other + held.units[other])
            is_free = false;
    CUdeviceptr at = held.range + (size_t)place * UNIT;
    if (!is_free) {
        FAILS(cuMemMap(at, (size_t)units * UNIT, 0, held.created[kept], 0));
        return;
    }
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemMap, cuMemMap, (at, (size_t)units * UNIT, 0, held.created[kept], 0));
    CU(cuMemSetAccess, cuMemSetAccess, (at, (size_t)units * UNIT, &access, 1));
    held.mapped[place] = held.created[kept];
    held.units[place] = units;
}

static void step_virtual(void)
{
    if (held.range == 0)
        CU(cuMemAddressReserve, cuMemAddressReserve, (&held.range, (size_t)RANGE_UNITS * UNIT, 0, 0, 0));
    for (int left = 1 + roll(6); left > 0; left--) {
        int kept = roll(KEPT), place = roll(RANGE_UNITS);
        if (one_in(2) && held.units[place] != 0) {
            // No other work can use it: the range is this thread's.
            CU(cuMemUnmap, cuMemUnmap, (held.range + (size_t)place * UNIT, (size_t)held.units[place] * UNIT));
            held.units[place] = 0;
        } else if (held.created[kept] == 0) {
            CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            held.created_units[kept] = 1 + roll(2);
            CU(cuMemCreate, cuMemCreate, (&held.created[kept], (size_t)held.created_units[kept] * UNIT, &properties, 0));
        } else if (one_in(3)) {
            CU(cuMemRelease, cuMemRelease, (held.created[kept]));
            held.created[kept] = 0;
        } else if (one_in(4) && held.units[place] != 0) {
            CUmemGenericAllocationHandle again;
            CU(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,
               (&again, (void *)(held.range + (size_t)place * UNIT + 1)));
            REQUIRE(again == held.mapped[place]);
            CU(cuMemRelease, cuMemRelease, (again));
        } else {
            map_some(kept);
        }
    }
}

static void step_array(void)
{
    int kept = roll(KEPT);
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Format = one_in(2) ? CU_AD_FORMAT_FLOAT : CU_AD_FORMAT_UNSIGNED_INT8};
    shape.Width = 1 + (size_t)roll(200);
    shape.Height = one_in(4) ? 0 : 1 + (size_t)roll(100);
    shape.Depth = shape.Height == 0 || one_in(2) ? 0 : 1 + (size_t)roll(20);
    shape.NumChannels = 1u << roll(3);
    if (one_in(3)) {
        if (held.mipmaps[kept] != NULL)
            CU(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, (held.mipmaps[kept]));
        CU(cuMipmappedArrayCreate, cuMipmappedArrayCreate, (&held.mipmaps[kept], &shape, 1 + (unsigned)roll(10)));
    } else {
        if (held.arrays[kept] != NULL)
            CU(cuArrayDestroy, cuArrayDestroy, (held.arrays[kept]));
        CU(cuArray3DCreate, cuArray3DCreate_v2, (&held.arrays[kept], &shape));
    }
}

static void step_external(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 1 << 20};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.size = 1 + (size_t)roll(1 << 20)};
    CUexternalMemory external;
    CUdeviceptr buffer;
    REQUIRE((description.handle.fd = memfd_create("external", 0)) >= 0);
    CU(cuImportExternalMemory, cuImportExternalMemory, (&external, &description));
    CU(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, (&buffer, external, &part));
    CU(cuMemFree, cuMemFree_v2, (buffer));
    CU(cuDestroyExternalMemory, cuDestroyExternalMemory, (external));
}

// ---- graphs ----

enum { GRAPH_BLOCKS = 4 };

struct with_blocks {
    CUgraph graph;
    CUdeviceptr blocks[GRAPH_BLOCKS];
    // Whether the block exists after a launch, and whether it exists now.
    bool stays[GRAPH_BLOCKS], there[GRAPH_BLOCKS];
    int count;
};

// Blocks one after the other or side by side; some are freed in the graph.
static void make_blocks(struct with_blocks *made)
{
    CUgraphNode node = NULL;
    CHECK(cuGraphCreate(&made->graph, 0));
    made->count = 1 + roll(GRAPH_BLOCKS);
    for (int block = 0; block < made->count; block++) {
        CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.bytesize = 1 + (size_t)roll(1 << 20)};
        bool is_behind = node != NULL && one_in(2);
        parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CU(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, (&node, made->graph, &node, is_behind, &parameters));
        made->blocks[block] = parameters.dptr;
        made->stays[block] = one_in(2);
        made->there[block] = false;
        if (!made->stays[block])
            CU(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, (&node, made->graph, &node, 1, parameters.dptr));
    }
}

// Frees a block by one of the calls that can.
static void free_block(CUdeviceptr block)
{
    if (one_in(2)) {
        struct target target = any_target();
        target_enter(target);
        CU_ON(target, cuMemFreeAsync, cuMemFreeAsync, _ptsz, (block, target.stream));
        target_leave(target);
    } else {
        CU(cuMemFree, cuMemFree_v2, (block));
    }
}

static void run_blocks(CUgraphExec executable)
{
    struct target target = any_target();
    target_enter(target);
    CU_ON(target, cuGraphLaunch, cuGraphLaunch, _ptsz, (executable, target.stream));
    target_leave(target);
}

// Frees what a launch left, by calls or by a graph: `all` of it, or some.
static void free_blocks(struct with_blocks *made, bool all)
{
    CUgraph graph = NULL;
    CUgraphExec executable;
    for (int block = 0; block < made->count; block++) {
        if (!made->there[block] || (!all && one_in(2)))
            continue;
        made->there[block] = false;
        if (one_in(2)) {
            free_block(made->blocks[block]);
            continue;
        }
        CUgraphNode node;
        if (graph == NULL)
            CHECK(cuGraphCreate(&graph, 0));
        CU(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, (&node, graph, NULL, 0, made->blocks[block]));
    }
    if (graph == NULL)
        return;
    CU(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (&executable, graph, 0));
    run_blocks(executable);
    FAILS(cuGraphLaunch(executable, mine()->streams[0]));
    CU(cuGraphExecDestroy, cuGraphExecDestroy, (executable));
    CHECK(cuGraphDestroy(graph));
}

// Uses memory of a graph that is freed inside, by calls, by another graph, by the next launch, much later, or never.
static void step_graph_blocks(void)
{
    struct with_blocks made;
    CUgraphExec executable;
    unsigned long long flags = one_in(2) ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0;
    make_blocks(&made);
    CU(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (&executable, made.graph, flags));
    FAILS(cuGraphInstantiateWithFlags(&executable, made.graph, flags));
    for (int left = 1 + roll(4); left > 0; left--) {
        run_blocks(executable);
        for (int block = 0; block < made.count; block++)
            made.there[block] = made.stays[block];
        if (left > 1)
            free_blocks(&made, flags == 0);
    }
    CU(cuGraphExecDestroy, cuGraphExecDestroy, (executable));
    if (one_in(2))
        free_blocks(&made, false);
    CHECK(cuGraphDestroy(made.graph));
    for (int block = 0; block < made.count; block++) {
        CUdeviceptr *place = &held.left[roll(KEPT)];
        if (!made.there[block])
            continue;
        if (*place != 0)
            free_block(*place);
        *place = made.blocks[block];
    }
}
