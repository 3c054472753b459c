// What a random program (random_program.c) moves with the argument `wide`, besides plain copies and memsets: by rows
// and slices, in batches, to and from arrays, and prefetches of managed memory.
#pragma once
#include "random_world.h"

// The size that each of these copies fits into: 64 rows of 512 bytes, 4 slices.
struct shape {
    size_t width, height, depth, to_pitch, from_pitch;
};

static struct shape some_shape(bool slices)
{
    struct shape shape = {.width = 1 + (size_t)roll(256), .height = 1 + (size_t)roll(64), .depth = 1};
    if (slices)
        shape.depth = 1 + (size_t)roll(4);
    shape.to_pitch = shape.width + (size_t)roll(256);
    shape.from_pitch = shape.width + (size_t)roll(256);
    return shape;
}

// The two sides of a copy, and the host memory that takes part.
struct sides_of_copy {
    CUmemorytype from_type, to_type;
    char *from_host, *to_host;
    CUdeviceptr from_device, to_device;
    enum side side;
};

static struct sides_of_copy some_sides(enum transfer kind)
{
    struct sides_of_copy sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, NULL, NULL, 0, 0, NO_HOST_MEMORY};
    sides.from_device = some_device();
    sides.to_device = some_device();
    if (kind == HTOD) {
        sides.from_type = CU_MEMORYTYPE_HOST;
        sides.from_host = some_host(&sides.side);
        sides.from_device = (CUdeviceptr)sides.from_host;
    } else if (kind == DTOH) {
        sides.to_type = CU_MEMORYTYPE_HOST;
        sides.to_host = some_host(&sides.side);
        sides.to_device = (CUdeviceptr)sides.to_host;
    }
    // An address whose kind the driver determines.
    if (one_in(4))
        sides.from_type = sides.to_type = CU_MEMORYTYPE_UNIFIED;
    return sides;
}

static void copy_rows(enum transfer kind, bool async, struct target target)
{
    struct sides_of_copy sides = some_sides(kind);
    struct shape shape = some_shape(false);
    CUDA_MEMCPY2D copy = {.srcMemoryType = sides.from_type, .srcHost = sides.from_host, .srcDevice = sides.from_device};
    copy.srcPitch = shape.from_pitch;
    copy.dstMemoryType = sides.to_type;
    copy.dstHost = sides.to_host;
    copy.dstDevice = sides.to_device;
    copy.dstPitch = shape.to_pitch;
    copy.dstXInBytes = (size_t)roll(64);
    copy.srcY = (size_t)roll(4);
    copy.WidthInBytes = shape.width;
    copy.Height = shape.height;
    if (async)
        CU_ON(target, cuMemcpy2DAsync, cuMemcpy2DAsync_v2, _ptsz, (&copy, target.stream));
    else if (one_in(2))
        CU_ON(target, cuMemcpy2D, cuMemcpy2D_v2, _ptds, (&copy));
    else
        CU_ON(target, cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, _ptds, (&copy));
    count_transfer(kind, sides.side, shape.width * shape.height);
}

static void copy_slices(enum transfer kind, bool async, struct target target)
{
    struct sides_of_copy sides = some_sides(kind);
    struct shape shape = some_shape(true);
    CUDA_MEMCPY3D copy = {.srcMemoryType = sides.from_type, .srcHost = sides.from_host, .srcDevice = sides.from_device};
    copy.srcPitch = shape.from_pitch;
    copy.srcHeight = copy.dstHeight = shape.height;
    copy.dstMemoryType = sides.to_type;
    copy.dstHost = sides.to_host;
    copy.dstDevice = sides.to_device;
    copy.dstPitch = shape.to_pitch;
    copy.srcZ = (size_t)roll(2);
    copy.WidthInBytes = shape.width;
    copy.Height = shape.height;
    copy.Depth = shape.depth;
    if (async)
        CU_ON(target, cuMemcpy3DAsync, cuMemcpy3DAsync_v2, _ptsz, (&copy, target.stream));
    else
        CU_ON(target, cuMemcpy3D, cuMemcpy3D_v2, _ptds, (&copy));
    count_transfer(kind, sides.side, shape.width * shape.height * shape.depth);
}

// Copies part of a line of elements: to it, from it, or between two parts.
static void copy_line(enum transfer kind, bool async, struct target target)
{
    size_t at = 4 * (size_t)roll(ARRAY_WIDTH), bytes = 4 * (size_t)(1 + roll(ARRAY_WIDTH - (int)at / 4));
    struct sides_of_copy sides = some_sides(kind);
    CUarray line = mine()->line;
    if (kind == HTOD && async)
        CU_ON(target, cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, _ptsz, (line, at, sides.from_host, bytes, target.stream));
    else if (kind == HTOD)
        CU_ON(target, cuMemcpyHtoA, cuMemcpyHtoA_v2, _ptds, (line, at, sides.from_host, bytes));
    else if (kind == DTOH && async)
        CU_ON(target, cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, _ptsz, (sides.to_host, line, at, bytes, target.stream));
    else if (kind == DTOH)
        CU_ON(target, cuMemcpyAtoH, cuMemcpyAtoH_v2, _ptds, (sides.to_host, line, at, bytes));
    else if (async)
        return; // these have no asynchronous variants
    else if (one_in(3))
        CU_ON(target, cuMemcpyAtoA, cuMemcpyAtoA_v2, _ptds, (line, 0, line, at, bytes));
    else if (one_in(2))
        CU_ON(target, cuMemcpyAtoD, cuMemcpyAtoD_v2, _ptds, (sides.to_device, line, at, bytes));
    else
        CU_ON(target, cuMemcpyDtoA, cuMemcpyDtoA_v2, _ptds, (line, at, sides.from_device, bytes));
    count_transfer(kind, sides.side, bytes);
}

// Copies rows of elements; the driver may have to determine the kind of the other side's address.
static void copy_plane(enum transfer kind, bool async, struct target target)
{
    struct sides_of_copy sides = some_sides(kind);
    CUDA_MEMCPY2D copy = {.srcMemoryType = sides.from_type, .srcHost = sides.from_host, .srcDevice = sides.from_device};
    copy.dstMemoryType = sides.to_type;
    copy.dstHost = sides.to_host;
    copy.dstDevice = sides.to_device;
    copy.WidthInBytes = 4 * (size_t)(1 + roll(128));
    copy.Height = 1 + (size_t)roll(ARRAY_HEIGHT / 2);
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes + (size_t)roll(64);
    copy.srcArray = copy.dstArray = mine()->plane;
    if (kind == HTOD || (kind == DTOD && one_in(2))) {
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.dstXInBytes = 4 * (size_t)roll(ARRAY_WIDTH - 128);
        copy.dstY = (size_t)roll(ARRAY_HEIGHT / 2);
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.srcXInBytes = 4 * (size_t)roll(ARRAY_WIDTH - 128);
        copy.srcY = (size_t)roll(ARRAY_HEIGHT / 2);
    }
    if (async)
        CU_ON(target, cuMemcpy2DAsync, cuMemcpy2DAsync_v2, _ptsz, (&copy, target.stream));
    else
        CU_ON(target, cuMemcpy2D, cuMemcpy2D_v2, _ptds, (&copy));
    count_transfer(kind, sides.side, copy.WidthInBytes * copy.Height);
}

static void copy_slices_to_peer(bool async, struct target target)
{
    struct place *peer = &places[roll(contexts_used)];
    struct shape shape = some_shape(true);
    CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = mine()->device};
    copy.srcContext = me.place->context;
    copy.srcPitch = shape.from_pitch;
    copy.srcHeight = copy.dstHeight = shape.height;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = me.own[peer - places].device;
    copy.dstContext = peer->context;
    copy.dstPitch = shape.to_pitch;
    copy.WidthInBytes = shape.width;
    copy.Height = shape.height;
    copy.Depth = shape.depth;
    if (async)
        CU_ON(target, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, _ptsz, (&copy, target.stream));
    else
        CU_ON(target, cuMemcpy3DPeer, cuMemcpy3DPeer, _ptds, (&copy));
    count_transfer(PTOP, NO_HOST_MEMORY, shape.width * shape.height * shape.depth);
}

static void set_rows(bool async, struct target target)
{
    struct shape shape = some_shape(false);
    CUdeviceptr at = some_device();
    size_t height = shape.height, width = shape.width, pitch = 4 * shape.to_pitch;
    int element = roll(3);
    if (element == 0 && async)
        CU_ON(target, cuMemsetD2D8Async, cuMemsetD2D8Async, _ptsz, (at, pitch, 7, width, height, target.stream));
    else if (element == 0)
        CU_ON(target, cuMemsetD2D8, cuMemsetD2D8_v2, _ptds, (at, pitch, 7, width, height));
    else if (element == 1 && async)
        CU_ON(target, cuMemsetD2D16Async, cuMemsetD2D16Async, _ptsz, (at, pitch, 7, width, height, target.stream));
    else if (element == 1)
        CU_ON(target, cuMemsetD2D16, cuMemsetD2D16_v2, _ptds, (at, pitch, 7, width, height));
    else if (async)
        CU_ON(target, cuMemsetD2D32Async, cuMemsetD2D32Async, _ptsz, (at, pitch, 7, width, height, target.stream));
    else
        CU_ON(target, cuMemsetD2D32, cuMemsetD2D32_v2, _ptds, (at, pitch, 7, width, height));
    count_transfer(MEMSET, NO_HOST_MEMORY, (width * height) << element);
}

// Prefetches managed memory to a device or to the host.
static void prefetch(struct target target)
{
    bool to_host = one_in(2);
    size_t bytes = 1 + (size_t)roll(BUFFER_BYTES);
    if (one_in(2)) {
        CUdevice where = to_host ? CU_DEVICE_CPU : device;
        CU_ON(target, cuMemPrefetchAsync, cuMemPrefetchAsync, _ptsz, (mine()->managed, bytes, where, target.stream));
    } else {
        CUmemLocation where = {.type = to_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        CU_ON(target, cuMemPrefetchAsync, cuMemPrefetchAsync_v2, _ptsz, (mine()->managed, bytes, where, 0, target.stream));
    }
    count_transfer(to_host ? DTOH : HTOD, MANAGED_MEMORY, bytes);
}

enum { BATCH = 5 };

// Makes several copies in one direction, which the stream runs as one. Not allowed on the legacy default stream.
static void copy_batch(void)
{
    struct target target = target_of(mine()->streams[roll(OWN_STREAMS)], one_in(2));
    CUdeviceptr from[BATCH], to[BATCH];
    size_t sizes[BATCH], bytes = 0, failed, count = 1 + (size_t)roll(BATCH), first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    enum transfer kind = (enum transfer)roll(3);
    struct sides_of_copy sides = some_sides(kind);
    for (size_t copy = 0; copy < count; copy++) {
        from[copy] = sides.from_device + copy * 65536;
        to[copy] = sides.to_device + copy * 65536;
        bytes += sizes[copy] = 1 + (size_t)roll(65536);
    }
    CU_ON(target, cuMemcpyBatchAsync, cuMemcpyBatchAsync, _ptsz,
          (to, from, sizes, count, &attributes, &first, 1, &failed, target.stream));
    count_transfer(kind, sides.side, bytes);
}

static void step_move(void)
{
    if (driver_version >= 12080 && one_in(5)) {
        copy_batch();
        return;
    }
    bool async = one_in(2);
    struct target target = async ? any_target() : target_of(NULL, one_in(2));
    target_enter(target);
    for (int left = 1 + roll(3); left > 0; left--) {
        enum transfer kind = (enum transfer)roll(3);
        switch (roll(8)) {
        case 0:
        case 1:
            copy_rows(kind, async, target);
            break;
        case 2:
            copy_slices(kind, async, target);
            break;
        case 3:
            copy_slices_to_peer(async, target);
            break;
        case 4:
            set_rows(async, target);
            break;
        case 5:
            copy_line(kind, async, target);
            break;
        case 6:
            copy_plane(kind, async, target);
            break;
        default:
            prefetch(target);
        }
    }
    target_leave(target);
}
