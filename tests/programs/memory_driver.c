// Allocates and frees memory in every way of the driver API, in every allowed order: pitched, pools, physical memory
// and mappings, arrays, memory of others. Some of it is kept, some is freed with its context, and some calls must fail.
// Prints the calls.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <sys/mman.h>

#include "common.h"

#define CU(name, export, arguments) COUNTED(#name, export arguments)
// Makes a call that must fail, and counts it.
#define FAILS(name, export, arguments, expected)                                                                       \
    do {                                                                                                               \
        int fails_result_ = (int)export arguments;                                                                     \
        if (fails_result_ != (expected))                                                                               \
            FAIL("%s returned %d", #export, fails_result_);                                                            \
        COUNT(#name, 1);                                                                                               \
    } while (0)

enum { UNIT = 2 << 20 };

static CUdevice device;
static CUcontext context;
static CUstream stream;

static void blocks(void)
{
    CUdeviceptr kept, pitched, managed;
    size_t pitch;
    void *host, *registered = aligned_alloc(4096, 65536);
    CU(cuMemAlloc, cuMemAlloc_v2, (&kept, 1000));
    CU(cuMemAllocPitch, cuMemAllocPitch_v2, (&pitched, &pitch, 1000, 300, 4));
    REQUIRE(pitch > 1000);
    CU(cuMemAllocManaged, cuMemAllocManaged, (&managed, 5000, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemHostAlloc, cuMemHostAlloc, (&host, 7000, CU_MEMHOSTALLOC_PORTABLE));
    CU(cuMemHostRegister, cuMemHostRegister_v2, (registered, 65536, 0));
    // The last row of a pitched block is device memory, too.
    CU(cuMemcpy, cuMemcpy, (pitched + 299 * pitch, (CUdeviceptr)host, 1000));
    CU(cuMemHostUnregister, cuMemHostUnregister, (registered));
    CU(cuMemFreeHost, cuMemFreeHost, (host));
    CU(cuMemFree, cuMemFree_v2, (managed));
    CU(cuMemFree, cuMemFree_v2, (pitched));
    FAILS(cuMemAlloc, cuMemAlloc_v2, (&managed, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuMemFree, cuMemFree_v2, (kept + 8), CUDA_ERROR_INVALID_VALUE);
    free(registered);
}

static void pools(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemoryPool pool, imported, before;
    CUmemPoolPtrExportData data;
    CUdeviceptr first, second, third, twin;
    cuuint64_t keep = 1 << 20, held;
    int descriptor;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemPoolCreate, cuMemPoolCreate, (&pool, &properties));
    CU(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (&first, 100000, pool, stream));
    CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, (&second, 200000, pool, stream));
    CHECK(cuDeviceGetMemPool(&before, device));
    CU(cuDeviceSetMemPool, cuDeviceSetMemPool, (device, pool));
    CU(cuMemAllocAsync, cuMemAllocAsync, (&third, 300000, stream));
    CU(cuDeviceSetMemPool, cuDeviceSetMemPool, (device, before));
    CU(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
       (&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
       (&imported, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemPoolExportPointer, cuMemPoolExportPointer, (&data, first));
    CU(cuMemPoolImportPointer, cuMemPoolImportPointer, (&twin, imported, &data));
    CU(cuMemFreeAsync, cuMemFreeAsync_ptsz, (twin, stream));
    CU(cuMemFreeAsync, cuMemFreeAsync, (first, stream));
    CU(cuStreamSynchronize, cuStreamSynchronize, (stream));
    CU(cuMemPoolTrimTo, cuMemPoolTrimTo, (pool, 0));
    CU(cuMemPoolGetAttribute, cuMemPoolGetAttribute, (pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
    CU(cuMemPoolDestroy, cuMemPoolDestroy, (pool));
    CU(cuMemFree, cuMemFree_v2, (third));
    // The second block outlives its pool, and its context.
    FAILS(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (&first, 1, pool, stream), CUDA_ERROR_INVALID_HANDLE);
    close(descriptor);
}

static CUmemGenericAllocationHandle create(size_t bytes, CUmemLocationType where)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle;
    properties.requestedHandleTypes = where == CU_MEM_LOCATION_TYPE_DEVICE ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    properties.location.type = where;
    CU(cuMemCreate, cuMemCreate, (&handle, bytes, &properties, 0));
    return handle;
}

static void allow(CUdeviceptr at, size_t bytes)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemSetAccess, cuMemSetAccess, (at, bytes, &access, 1));
}

static void mappings(void)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handles[4], again, shared, multicast;
    CUmulticastObjectProp object = {.numDevices = 1, .size = UNIT};
    int descriptor;
    CU(cuMemAddressReserve, cuMemAddressReserve, (&at, 16 * UNIT, 0, 0, 0));
    for (int index = 0; index < 4; index++) {
        handles[index] = create((size_t)(index + 1) * UNIT, CU_MEM_LOCATION_TYPE_DEVICE);
        CU(cuMemMap, cuMemMap, (at + (size_t)(index * (index + 1) / 2) * UNIT, (size_t)(index + 1) * UNIT, 0, handles[index], 0));
    }
    FAILS(cuMemMap, cuMemMap, (at, UNIT, 0, handles[0], 0), CUDA_ERROR_INVALID_VALUE);
    allow(at, 10 * UNIT);
    CU(cuMemsetD8, cuMemsetD8_v2, (at, 1, 10 * UNIT));
    // Memory that is released while mapped, retained by its address, and mapped twice.
    CU(cuMemRelease, cuMemRelease, (handles[0]));
    CU(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, (&again, (void *)(at + 100)));
    REQUIRE(again == handles[0]);
    CU(cuMemMap, cuMemMap, (at + 10 * UNIT, UNIT, 0, again, 0));
    // Memory as another process would export it, and an address range for memory of several devices.
    CU(cuMemExportToShareableHandle, cuMemExportToShareableHandle,
       (&descriptor, handles[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,
       (&shared, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CU(cuMemMap, cuMemMap, (at + 11 * UNIT, 2 * UNIT, 0, shared, 0));
    CU(cuMulticastCreate, cuMulticastCreate, (&multicast, &object));
    CU(cuMulticastAddDevice, cuMulticastAddDevice, (multicast, device));
    CU(cuMulticastBindMem, cuMulticastBindMem, (multicast, 0, handles[2], 0, UNIT, 0));
    CU(cuMemMap, cuMemMap, (at + 13 * UNIT, UNIT, 0, multicast, 0));
    CUmemGenericAllocationHandle host = create(UNIT, CU_MEM_LOCATION_TYPE_HOST);
    CU(cuMemMap, cuMemMap, (at + 14 * UNIT, UNIT, 0, host, 0));
    // Unmaps in another order: two mappings in one call, and one call too many.
    FAILS(cuMemUnmap, cuMemUnmap, (at + 3 * UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemUnmap, cuMemUnmap, (at, 3 * UNIT));
    CU(cuMemUnmap, cuMemUnmap, (at + 10 * UNIT, UNIT));
    CU(cuMemRelease, cuMemRelease, (again));
    CU(cuMemRelease, cuMemRelease, (handles[1]));
    FAILS(cuMemRelease, cuMemRelease, (handles[0]), CUDA_ERROR_INVALID_VALUE);
    CU(cuMulticastUnbind, cuMulticastUnbind, (multicast, device, 0, UNIT));
    CU(cuMemUnmap, cuMemUnmap, (at + 13 * UNIT, UNIT));
    CU(cuMemRelease, cuMemRelease, (multicast));
    CU(cuMemUnmap, cuMemUnmap, (at + 11 * UNIT, 2 * UNIT));
    CU(cuMemRelease, cuMemRelease, (shared));
    CU(cuMemUnmap, cuMemUnmap, (at + 14 * UNIT, UNIT));
    CU(cuMemRelease, cuMemRelease, (host));
    CU(cuMemUnmap, cuMemUnmap, (at + 3 * UNIT, 3 * UNIT));
    CU(cuMemRelease, cuMemRelease, (handles[2]));
    // The fourth stays mapped without its handle; a range without mappings is freed.
    CU(cuMemRelease, cuMemRelease, (handles[3]));
    FAILS(cuMemAddressFree, cuMemAddressFree, (at, 16 * UNIT), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemAddressReserve, cuMemAddressReserve, (&at, UNIT, 0, 0, 0));
    CU(cuMemAddressFree, cuMemAddressFree, (at, UNIT));
    close(descriptor);
}

static void arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 100, .Height = 30, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 64, .Height = 64, .Depth = 6, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR sparse = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_UNSIGNED_INT8};
    CUarray one, two, three, kept;
    CUmipmappedArray mipmap;
    cube.Flags = CUDA_ARRAY3D_CUBEMAP;
    sparse.NumChannels = 1;
    sparse.Flags = CUDA_ARRAY3D_SPARSE;
    CU(cuArrayCreate, cuArrayCreate_v2, (&one, &flat));
    CU(cuArray3DCreate, cuArray3DCreate_v2, (&two, &cube));
    CU(cuArray3DCreate, cuArray3DCreate_v2, (&three, &sparse));
    CU(cuMipmappedArrayCreate, cuMipmappedArrayCreate, (&mipmap, &cube, 4));
    CU(cuArrayCreate, cuArrayCreate_v2, (&kept, &flat));
    CU(cuArrayDestroy, cuArrayDestroy, (two));
    CU(cuArrayDestroy, cuArrayDestroy, (three));
    CU(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, (mipmap));
    CU(cuArrayDestroy, cuArrayDestroy, (one));
    FAILS(cuArrayDestroy, cuArrayDestroy, (one), CUDA_ERROR_INVALID_HANDLE);
}

static void others(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 65536};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 4096, .size = 8192};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC image = {.numLevels = 1};
    CUexternalMemory external;
    CUmipmappedArray mipmap;
    CUdeviceptr buffer;
    REQUIRE((description.handle.fd = memfd_create("external", 0)) >= 0);
    image.arrayDesc = (CUDA_ARRAY3D_DESCRIPTOR){.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CU(cuImportExternalMemory, cuImportExternalMemory, (&external, &description));
    CU(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, (&buffer, external, &part));
    CU(cuExternalMemoryGetMappedMipmappedArray, cuExternalMemoryGetMappedMipmappedArray, (&mipmap, external, &image));
    CU(cuMemsetD8, cuMemsetD8_v2, (buffer, 1, 8192));
    CU(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, (mipmap));
    CU(cuMemFree, cuMemFree_v2, (buffer));
    CU(cuDestroyExternalMemory, cuDestroyExternalMemory, (external));
}

int main(void)
{
    CU(cuInit, cuInit, (0));
    CHECK(cuDeviceGet(&device, 0));
    CU(cuCtxCreate, cuCtxCreate_v2, (&context, 0, device));
    CU(cuStreamCreate, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
    blocks();
    pools();
    mappings();
    arrays();
    others();
    CU(cuCtxDestroy, cuCtxDestroy_v2, (context));
    printf("{\"program\":\"memory_driver\",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
