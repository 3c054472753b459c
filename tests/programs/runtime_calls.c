// Calls the runtime's functions that the other clients do not use, and checks what CUDA promises for each: device
// properties, round trips of data by every kind of copy, events, host functions, capture and graphs, pools, pointer
// attributes, driver entry points, reset. Registers its kernel the way nvcc's output does, so it runs on the simulated
// runtime only. Prints the calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

#include <dlfcn.h>
#include <semaphore.h>

enum { BYTES = 1 << 16, CAPTURED = 10, GRAPH_LAUNCHES = 3 };

static int launches;

static void stub_500us(void) {}

static void launch(cudaStream_t stream)
{
    dim3 one = {1, 1, 1}, block = {32, 1, 1};
    CHECK(cudaLaunchKernel((const void *)stub_500us, one, block, NULL, 0, stream));
}

static void launch_counted(cudaStream_t stream)
{
    launch(stream);
    launches++;
}

static void fill(unsigned char *bytes, int seed)
{
    for (int index = 0; index < BYTES; index++)
        bytes[index] = (unsigned char)(index * 7 + seed);
}

static void check_device(void)
{
    struct cudaDeviceProp properties;
    int count, device = -1, processors, version;
    size_t free_bytes, total_bytes;
    char bus[32];
    CHECK(cudaGetDeviceCount(&count));
    REQUIRE(count >= 1);
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDevice(&device));
    REQUIRE(device == 0);
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    REQUIRE(properties.name[0] != 0 && properties.multiProcessorCount == processors && processors > 0);
    REQUIRE(properties.warpSize == 32 && properties.maxThreadsPerBlock > 0 && properties.sharedMemPerBlock > 0);
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    REQUIRE(total_bytes == properties.totalGlobalMem && free_bytes <= total_bytes);
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    REQUIRE(strchr(bus, ':') != NULL);
    CHECK(cudaDriverGetVersion(&version));
    REQUIRE(version >= 12000);
    CHECK(cudaRuntimeGetVersion(&version));
    REQUIRE(version / 1000 == 12);
    REQUIRE(cudaSetDevice(count) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
}

static void check_copies(void)
{
    unsigned char *pageable = malloc(BYTES), *back = malloc(BYTES), *pinned, *managed;
    void *device, *other;
    cudaStream_t stream;
    REQUIRE(pageable != NULL && back != NULL);
    CHECK(cudaMallocHost((void **)&pinned, BYTES));
    CHECK(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    CHECK(cudaMalloc(&device, BYTES));
    CHECK(cudaMalloc(&other, BYTES));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // One round trip by typed copies, one by copies whose kind the driver determines.
    for (int untyped = 0; untyped < 2; untyped++) {
        fill(pageable, untyped);
        memset(back, 0, BYTES);
        CHECK(cudaMemcpy(device, pageable, BYTES, untyped ? cudaMemcpyDefault : cudaMemcpyHostToDevice));
        CHECK(cudaMemcpyAsync(other, device, BYTES, untyped ? cudaMemcpyDefault : cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(pinned, other, BYTES, untyped ? cudaMemcpyDefault : cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(managed, pinned, BYTES, cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(back, managed, BYTES, cudaMemcpyDefault));
        REQUIRE(memcmp(pageable, back, BYTES) == 0);
    }
    CHECK(cudaMemset(device, 0x5a, BYTES));
    CHECK(cudaMemsetAsync(device, 0xa5, BYTES / 2, stream));
    CHECK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(pinned[0] == 0xa5 && pinned[BYTES / 2 - 1] == 0xa5 && pinned[BYTES / 2] == 0x5a && pinned[BYTES - 1] == 0x5a);

    struct cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, device));
    REQUIRE(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == device);
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    CHECK(cudaPointerGetAttributes(&attributes, managed));
    REQUIRE(attributes.type == cudaMemoryTypeManaged);
    CHECK(cudaPointerGetAttributes(&attributes, pageable));
    REQUIRE(attributes.type == cudaMemoryTypeUnregistered);

    CHECK(cudaHostRegister(pageable, BYTES, cudaHostRegisterDefault));
    CHECK(cudaPointerGetAttributes(&attributes, pageable));
    REQUIRE(attributes.type == cudaMemoryTypeHost);
    CHECK(cudaHostUnregister(pageable));
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(stream));
    free(pageable);
    free(back);
}

static void hold(void *gate)
{
    while (sem_wait(gate) != 0 && errno == EINTR) {
    }
}

static void add_one(void *number)
{
    atomic_fetch_add((atomic_int *)number, 1);
}

static void add_two(cudaStream_t stream, cudaError_t status, void *number)
{
    (void)stream;
    REQUIRE(status == cudaSuccess);
    atomic_fetch_add((atomic_int *)number, 2);
}

static void check_streams_and_events(void)
{
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms = 0;
    int least, greatest, priority;
    atomic_int number = 0;
    sem_t gate;
    CHECK(sem_init(&gate, 0, 0));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamGetPriority(stream, &priority));
    REQUIRE(priority == greatest);
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    CHECK(cudaLaunchHostFunc(stream, hold, &gate));
    CHECK(cudaEventRecord(start, stream));
    launch_counted(stream);
    CHECK(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
    REQUIRE(cudaEventQuery(end) == cudaErrorNotReady && cudaStreamQuery(stream) == cudaErrorNotReady);
    REQUIRE(cudaGetLastError() == cudaErrorNotReady);
    CHECK(sem_post(&gate));
    CHECK(cudaLaunchHostFunc(stream, add_one, &number));
    CHECK(cudaStreamAddCallback(stream, add_two, &number, 0));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, start, end));
    REQUIRE(ms >= 0.499f);
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(number == 3);
    CHECK(cudaStreamQuery(stream));
    CHECK(cudaStreamWaitEvent(stream, end, 0));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

static void check_graph(void)
{
    cudaStream_t stream;
    cudaGraph_t graph, same;
    cudaGraphExec_t executable;
    enum cudaStreamCaptureStatus status;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    unsigned long long id = 0;
    size_t nodes = 0, dependencies = 0;
    const cudaGraphNode_t *last;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    REQUIRE(mode == cudaStreamCaptureModeGlobal);
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int captured = 0; captured < CAPTURED; captured++)
        launch(stream);
    CHECK(cudaStreamIsCapturing(stream, &status));
    REQUIRE(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &same, &last, &dependencies));
    REQUIRE(status == cudaStreamCaptureStatusActive && id != 0 && dependencies == 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
    REQUIRE(graph == same && nodes == CAPTURED);
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int launched = 0; launched < GRAPH_LAUNCHES; launched++)
        CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void check_pools_and_kernels(void)
{
    cudaMemPool_t pool;
    unsigned long long threshold = 0;
    struct cudaFuncAttributes attributes;
    cudaKernel_t kernel;
    void *block;
    int blocks = 0;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMallocAsync(&block, BYTES, 0));
    CHECK(cudaFreeAsync(block, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaFuncGetAttributes(&attributes, (const void *)stub_500us));
    REQUIRE(attributes.maxThreadsPerBlock > 0);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)stub_500us, 128, 0));
    REQUIRE(blocks > 0);
    size_t shared = 0;
    int clusters = 0;
    cudaLaunchConfig_t config = {.gridDim = {64, 1, 1}, .blockDim = {128, 1, 1}};
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, (const void *)stub_500us, 1, 128));
    REQUIRE(shared > 0);
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, (const void *)stub_500us, &config));
    REQUIRE(clusters > 0);
    CHECK(cudaOccupancyMaxPotentialClusterSize(&clusters, (const void *)stub_500us, &config));
    REQUIRE(clusters > 0);
    CHECK(cudaGetKernel(&kernel, (const void *)stub_500us));
    REQUIRE(kernel != NULL);
}

static void check_entry_points(void)
{
    void *found = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    enum cudaDriverEntryPointQueryResult status;
    REQUIRE(library != NULL);
    CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &found, cudaEnableDefault, &status));
    REQUIRE(status == cudaDriverEntryPointSuccess && found == dlsym(library, "cuMemAlloc_v2"));
    CHECK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &found, 12000, cudaEnablePerThreadDefaultStream, &status));
    REQUIRE(status == cudaDriverEntryPointSuccess && found == dlsym(library, "cuLaunchKernel_ptsz"));
    CHECK(cudaGetDriverEntryPoint("cuNoSuchFunction", &found, cudaEnableDefault, &status));
    REQUIRE(status == cudaDriverEntryPointSymbolNotFound && found == NULL);
}

int main(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub_500us, "round_500us");
    __cudaRegisterFatBinaryEnd(handle);
    check_device();
    check_copies();
    check_streams_and_events();
    check_pools_and_kernels();
    check_graph();
    check_entry_points();
    // After a reset everything starts anew, including the kernel's loading.
    CHECK(cudaDeviceReset());
    launch_counted(0);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(cudaGetLastError() == cudaSuccess);
    __cudaUnregisterFatBinary(handle);
    printf("{\"program\":\"runtime_calls\",\"launches\":%d,\"captured\":%d,\"in_graphs\":%d,\"graph_launches\":%d}\n", launches,
           CAPTURED, CAPTURED * GRAPH_LAUNCHES, GRAPH_LAUNCHES);
    return 0;
}
