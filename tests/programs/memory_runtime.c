// Allocates and frees memory in every way of the runtime. Prints the calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include <sys/mman.h>

#include "common.h"

#define CUDA(name, arguments) COUNTED(#name, name arguments)

// The per-thread variants, to which the header only maps other names.
extern __typeof__(cudaMallocFromPoolAsync) cudaMallocFromPoolAsync_ptsz;

static struct cudaExtent extent(size_t width, size_t height, size_t depth)
{
    return (struct cudaExtent){width, height, depth};
}

static void blocks(void)
{
    void *block, *pitched;
    struct cudaPitchedPtr cube;
    size_t pitch;
    CUDA(cudaMalloc, (&block, 1000));
    CUDA(cudaMallocPitch, (&pitched, &pitch, 1000, 300));
    CUDA(cudaMalloc3D, (&cube, extent(100, 20, 30)));
    REQUIRE(pitch >= 1000 && cube.pitch >= 100 && cube.xsize == 100);
    CUDA(cudaFree, (cube.ptr));
    CUDA(cudaFree, (pitched));
    CUDA(cudaFree, (NULL));
    // The first block is kept.
    if (cudaMalloc(&pitched, (size_t)1 << 50) != cudaErrorMemoryAllocation)
        FAIL("there is not so much memory");
    COUNT("cudaMalloc", 1);
}

static void pools(void)
{
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned};
    struct cudaMemPoolPtrExportData data;
    cudaMemPool_t pool, imported, before;
    void *first, *second, *third, *twin;
    uint64_t keep = 1 << 20;
    int descriptor;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    properties.location.type = cudaMemLocationTypeDevice;
    CUDA(cudaMemPoolCreate, (&pool, &properties));
    CUDA(cudaMemPoolSetAttribute, (pool, cudaMemPoolAttrReleaseThreshold, &keep));
    CUDA(cudaMallocFromPoolAsync, (&first, 100000, pool, 0));
    COUNTED("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync_ptsz(&second, 200000, pool, 0));
    CHECK(cudaDeviceGetMemPool(&before, 0));
    CUDA(cudaDeviceSetMemPool, (0, pool));
    CUDA(cudaMallocAsync, (&third, 300000, 0));
    CUDA(cudaDeviceSetMemPool, (0, before));
    CUDA(cudaMemPoolExportToShareableHandle, (&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    CUDA(cudaMemPoolImportFromShareableHandle,
         (&imported, (void *)(intptr_t)descriptor, cudaMemHandleTypePosixFileDescriptor, 0));
    CUDA(cudaMemPoolExportPointer, (&data, first));
    CUDA(cudaMemPoolImportPointer, (&twin, imported, &data));
    CUDA(cudaFreeAsync, (twin, 0));
    CUDA(cudaFreeAsync, (first, 0));
    CUDA(cudaStreamSynchronize, (0));
    CUDA(cudaMemPoolTrimTo, (pool, 0));
    CUDA(cudaMemPoolGetAttribute, (pool, cudaMemPoolAttrReservedMemCurrent, &keep));
    CUDA(cudaMemPoolDestroy, (pool));
    CUDA(cudaFree, (third));
    close(descriptor);
}

static void arrays(void)
{
    struct cudaChannelFormatDesc floats = {.x = 32, .y = 32, .f = cudaChannelFormatKindFloat};
    struct cudaChannelFormatDesc bytes = {.x = 8, .f = cudaChannelFormatKindUnsigned};
    cudaArray_t flat, cube, kept;
    cudaMipmappedArray_t mipmap;
    CUDA(cudaMallocArray, (&flat, &floats, 100, 30, cudaArrayDefault));
    CUDA(cudaMalloc3DArray, (&cube, &bytes, extent(64, 32, 16), cudaArrayDefault));
    CUDA(cudaMalloc3DArray, (&kept, &bytes, extent(64, 0, 7), cudaArrayLayered));
    CUDA(cudaMallocMipmappedArray, (&mipmap, &floats, extent(64, 32, 0), 9, cudaArrayDefault));
    CUDA(cudaFreeMipmappedArray, (mipmap));
    CUDA(cudaFreeArray, (flat));
    CUDA(cudaFreeArray, (cube));
}

static void others(void)
{
    struct cudaExternalMemoryHandleDesc description = {.type = cudaExternalMemoryHandleTypeOpaqueFd, .size = 65536};
    struct cudaExternalMemoryBufferDesc part = {.offset = 4096, .size = 8192};
    cudaExternalMemory_t external;
    void *buffer;
    REQUIRE((description.handle.fd = memfd_create("external", 0)) >= 0);
    CUDA(cudaImportExternalMemory, (&external, &description));
    CUDA(cudaExternalMemoryGetMappedBuffer, (&buffer, external, &part));
    CUDA(cudaFree, (buffer));
    CUDA(cudaDestroyExternalMemory, (external));
}

int main(void)
{
    blocks();
    pools();
    arrays();
    others();
    printf("{\"program\":\"memory_runtime\",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
