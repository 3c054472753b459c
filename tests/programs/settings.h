// Queries a device and makes settings as a program does before its work: properties, limits, textures and surfaces,
// attributes of streams, access to pools. Each answer is compared with another answer, and each invalid call has to be
// refused. Needs two devices. The including file defines what differs between versions of CUDA: IS_13, and
// PROPERTY(field, attribute) for what only one version has. Prints the calls.
#pragma once
#include <cuda_runtime_api.h>

#include "common.h"

#define RT(name, arguments) COUNTED(#name, name arguments)
// Makes a call that has to be refused, and counts it like any call.
#define REFUSED(name, error, arguments)                                                                                \
    do {                                                                                                               \
        REQUIRE(name arguments == (error));                                                                            \
        COUNT(#name, 1);                                                                                               \
    } while (0)

enum { WIDTH = 64, HEIGHT = 16, BYTES = WIDTH * HEIGHT * 4, GUARD = 0x5a };

static struct cudaDeviceProp *properties;

static int attribute_value(enum cudaDeviceAttr attribute)
{
    int value;
    RT(cudaDeviceGetAttribute, (&value, attribute, 1));
    return value;
}

#define SAME(field, attribute) REQUIRE((long)properties->field == (long)attribute_value(attribute))

// Checks that nothing is written after the end of the structure.
static void ask_properties(void)
{
    char room[sizeof(struct cudaDeviceProp) + 64];
    memset(room, GUARD, sizeof room);
    properties = (void *)room;
    RT(cudaGetDeviceProperties, (properties, 1));
    for (size_t at = sizeof(struct cudaDeviceProp); at < sizeof room; at++)
        REQUIRE(room[at] == GUARD);
    REQUIRE(strcmp(properties->name, "Simulated GPU") == 0 && properties->totalGlobalMem > 0);
    SAME(warpSize, cudaDevAttrWarpSize);
    SAME(maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock);
    SAME(maxGridSize[2], cudaDevAttrMaxGridDimZ);
    SAME(major, cudaDevAttrComputeCapabilityMajor);
    SAME(multiProcessorCount, cudaDevAttrMultiProcessorCount);
    SAME(sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    SAME(maxTexture2D[1], cudaDevAttrMaxTexture2DHeight);
    SAME(texturePitchAlignment, cudaDevAttrTexturePitchAlignment);
    SAME(pciBusID, cudaDevAttrPciBusId);
    SAME(l2CacheSize, cudaDevAttrL2CacheSize);
    SAME(cooperativeLaunch, cudaDevAttrCooperativeLaunch);
    SAME(reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock);
    SAME(memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported);
    SAME(clusterLaunch, cudaDevAttrClusterLaunch);
    OF_VERSION
    REFUSED(cudaGetDeviceProperties, cudaErrorInvalidDevice, (properties, 2));
    REFUSED(cudaGetDeviceProperties, cudaErrorInvalidValue, (NULL, 0));
}

static void ask_device(void)
{
    int value, device;
    size_t limit;
    unsigned flags;
    char id[32];
    RT(cudaDeviceSetLimit, (cudaLimitStackSize, 4096));
    RT(cudaDeviceGetLimit, (&limit, cudaLimitStackSize));
    REQUIRE(limit == 4096);
    REFUSED(cudaDeviceSetLimit, cudaErrorUnsupportedLimit, ((enum cudaLimit)99, 1));
    REFUSED(cudaDeviceGetLimit, cudaErrorInvalidValue, (NULL, cudaLimitStackSize));
    RT(cudaDeviceGetP2PAttribute, (&value, cudaDevP2PAttrAccessSupported, 0, 1));
    REQUIRE(value == 1);
    REFUSED(cudaDeviceGetP2PAttribute, cudaErrorInvalidDevice, (&value, cudaDevP2PAttrAccessSupported, 0, 0));
    REFUSED(cudaDeviceGetP2PAttribute, cudaErrorInvalidValue, (&value, (enum cudaDeviceP2PAttr)77, 0, 1));
    RT(cudaDeviceGetPCIBusId, (id, sizeof id, 1));
    RT(cudaDeviceGetByPCIBusId, (&device, id));
    REQUIRE(device == 1);
    RT(cudaGetDeviceFlags, (&flags));
}

static void use_textures(void)
{
    struct cudaChannelFormatDesc floats = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat), channels;
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray}, resource_told;
    struct cudaTextureDesc sampling = {.readMode = cudaReadModeElementType, .normalizedCoords = 1}, sampling_told;
    struct {
        struct cudaResourceDesc resource;
        char behind_resource[64];
        struct cudaResourceViewDesc view;
        char behind_view[64];
    } room;
    struct cudaResourceViewDesc view = {.format = cudaResViewFormatFloat1, .width = WIDTH, .height = HEIGHT};
    cudaArray_t array, surface_array;
    cudaTextureObject_t texture, linear, pitched;
    cudaSurfaceObject_t surface;
    struct cudaExtent extent;
    unsigned flags;
    char *memory;
    RT(cudaMallocArray, (&array, &floats, WIDTH, HEIGHT, 0));
    RT(cudaMallocArray, (&surface_array, &floats, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
    RT(cudaMalloc, ((void **)&memory, BYTES));
    RT(cudaArrayGetInfo, (&channels, &extent, &flags, surface_array));
    REQUIRE(channels.x == 32 && channels.y == 0 && channels.f == cudaChannelFormatKindFloat);
    REQUIRE(extent.width == WIDTH && extent.height == HEIGHT && flags == cudaArraySurfaceLoadStore);
    resource.res.array.array = array;
    sampling.addressMode[0] = cudaAddressModeBorder;
    sampling.borderColor[3] = 0.5f;
    RT(cudaCreateTextureObject, (&texture, &resource, &sampling, &view));
    RT(cudaGetTextureObjectResourceDesc, (&resource_told, texture));
    REQUIRE(resource_told.resType == cudaResourceTypeArray && resource_told.res.array.array == array);
    RT(cudaGetTextureObjectTextureDesc, (&sampling_told, texture));
    REQUIRE(memcmp(&sampling_told, &sampling, sizeof sampling) == 0);
    RT(cudaGetTextureObjectResourceViewDesc, (&view, texture));
    REQUIRE(view.width == WIDTH);
    // Checks that nothing is written after the end of either structure.
    memset(&room, GUARD, sizeof room);
    RT(cudaGetTextureObjectResourceDesc, (&room.resource, texture));
    RT(cudaGetTextureObjectResourceViewDesc, (&room.view, texture));
    for (size_t at = 0; at < sizeof room.behind_view; at++)
        REQUIRE(room.behind_resource[at] == GUARD && room.behind_view[at] == GUARD);
    view.height++;
    REFUSED(cudaCreateTextureObject, cudaErrorInvalidValue, (&linear, &resource, &sampling, &view));
    REFUSED(cudaCreateTextureObject, cudaErrorInvalidValue, (&linear, &resource, NULL, NULL));
    REFUSED(cudaCreateTextureObject, cudaErrorInvalidValue, (NULL, &resource, &sampling, NULL));
    REFUSED(cudaCreateSurfaceObject, cudaErrorInvalidValue, (&surface, &resource));
    resource.res.array.array = surface_array;
    RT(cudaCreateSurfaceObject, (&surface, &resource));
    RT(cudaGetSurfaceObjectResourceDesc, (&resource_told, surface));
    REQUIRE(resource_told.res.array.array == surface_array);

    memset(&resource, 0, sizeof resource);
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = floats;
    resource.res.linear.sizeInBytes = BYTES;
    RT(cudaCreateTextureObject, (&linear, &resource, &sampling, NULL));
    RT(cudaGetTextureObjectResourceDesc, (&resource_told, linear));
    REQUIRE(resource_told.res.linear.devPtr == memory && resource_told.res.linear.desc.x == 32);
    REFUSED(cudaGetTextureObjectResourceViewDesc, cudaErrorInvalidValue, (&view, linear));
    resource.res.linear.sizeInBytes = (size_t)1 << 40;
    REFUSED(cudaCreateTextureObject, cudaErrorInvalidValue, (&pitched, &resource, &sampling, NULL));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = memory;
    resource.res.pitch2D.desc = floats;
    resource.res.pitch2D.width = WIDTH, resource.res.pitch2D.height = HEIGHT;
    resource.res.pitch2D.pitchInBytes = WIDTH * 4;
    RT(cudaCreateTextureObject, (&pitched, &resource, &sampling, NULL));
    resource.res.pitch2D.devPtr = memory + 4;
    REFUSED(cudaCreateTextureObject, cudaErrorInvalidValue, (&pitched, &resource, &sampling, NULL));
    RT(cudaDestroyTextureObject, (texture));
    REFUSED(cudaDestroyTextureObject, cudaErrorInvalidValue, (texture));
    RT(cudaDestroyTextureObject, (linear));
    RT(cudaDestroySurfaceObject, (surface));
    REFUSED(cudaDestroySurfaceObject, cudaErrorInvalidValue, (surface));
    REFUSED(cudaGetSurfaceObjectResourceDesc, cudaErrorInvalidValue, (&resource_told, surface));
    RT(cudaFreeArray, (array));
    RT(cudaFree, (memory));
}

static void set_streams_and_pools(void)
{
    cudaStream_t stream, other;
    cudaStreamAttrValue value = {0};
    cudaMemPool_t pool;
    struct cudaMemLocation own = {.type = cudaMemLocationTypeDevice, .id = 0}, peer = own;
    struct cudaMemAccessDesc access = {.location = {.type = cudaMemLocationTypeDevice, .id = 1},
                                       .flags = cudaMemAccessFlagsProtReadWrite};
    enum cudaMemAccessFlags flags;
    int device;
    RT(cudaStreamCreate, (&stream));
    RT(cudaStreamCreate, (&other));
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitRatio = 0.5f;
    RT(cudaStreamSetAttribute, (stream, cudaStreamAttributeAccessPolicyWindow, &value));
    RT(cudaStreamCopyAttributes, (other, stream));
    memset(&value, 0, sizeof value);
    RT(cudaStreamGetAttribute, (other, cudaStreamAttributeAccessPolicyWindow, &value));
    REQUIRE(value.accessPolicyWindow.num_bytes == 4096 && value.accessPolicyWindow.hitRatio == 0.5f);
    REFUSED(cudaStreamSetAttribute, cudaErrorInvalidValue, (stream, cudaStreamAttributeAccessPolicyWindow, NULL));
    REFUSED(cudaStreamSetAttribute, cudaErrorInvalidValue, (stream, (cudaStreamAttrID)cudaLaunchAttributeCooperative, &value));
    value.syncPolicy = (enum cudaSynchronizationPolicy)9;
    REFUSED(cudaStreamSetAttribute, cudaErrorInvalidValue, (stream, cudaStreamAttributeSynchronizationPolicy, &value));
    RT(cudaStreamGetDevice, (stream, &device));
    REQUIRE(device == 0);
    RT(cudaDeviceGetDefaultMemPool, (&pool, 0));
    RT(cudaMemPoolGetAccess, (&flags, pool, &own));
    REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
    peer.id = 1;
    RT(cudaMemPoolGetAccess, (&flags, pool, &peer));
    REQUIRE(flags == cudaMemAccessFlagsProtNone);
    RT(cudaMemPoolSetAccess, (pool, &access, 1));
    RT(cudaMemPoolGetAccess, (&flags, pool, &peer));
    REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
    peer.id = 2;
    REFUSED(cudaMemPoolGetAccess, cudaErrorInvalidDevice, (&flags, pool, &peer));
    access.location.id = 0, access.flags = cudaMemAccessFlagsProtNone;
    REFUSED(cudaMemPoolSetAccess, cudaErrorInvalidValue, (pool, &access, 1));
    RT(cudaStreamDestroy, (stream));
    REFUSED(cudaStreamGetAttribute, cudaErrorDeviceUninitialized, (stream, cudaStreamAttributePriority, &value));
}

static int run_settings(const char *program)
{
    ask_properties();
    ask_device();
    use_textures();
    set_streams_and_pools();
    printf("{\"program\":\"%s\",", program);
    print_counts("apis", "cudaMalloc", NULL);
    printf("}\n");
    return 0;
}
