// Sets errno before each CUDA call and reads it afterwards. Prints the calls that changed it, with the new value.
// CUDA promises nothing about errno, but a program must see the same values with a tracer as without.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda_runtime_api.h>

#include "driver.h"

enum { ROUNDS = 300, MARK = 4242 };

// The function of CUDA 11, which the agent does not call: the value that it leaves is told from that of an agent's call.
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);

static char changed[64][128];
static int changes;

static void note(const char *call, int value)
{
    char text[128];
    snprintf(text, sizeof text, "%s: %d", call, value);
    for (int known = 0; known < changes; known++)
        if (strcmp(changed[known], text) == 0)
            return;
    REQUIRE(changes < 64);
    strcpy(changed[changes++], text);
}

#define KEEPS(call)                                                                                                    \
    do {                                                                                                               \
        errno = MARK;                                                                                                  \
        int result_ = (int)(call);                                                                                     \
        if (errno != MARK)                                                                                             \
            note(#call, errno);                                                                                               \
        if (result_ != 0)                                                                                              \
            FAIL("%s returned %d", #call, result_);                                                                    \
    } while (0)

static void *on_another_thread(void *context)
{
    CUdeviceptr block;
    KEEPS(cuCtxSetCurrent(context));
    KEEPS(cuMemAlloc(&block, 4096));
    KEEPS(cuMemFree(block));
    return NULL;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUstream stream;
    CUevent event;
    CUdeviceptr block;
    void *runtime_block;
    char host[256] = {0};
    const char *name = "kept_2us";
    const char *wanted = "cuStreamQuery";
    void *function;
    char *ptx = ptx_module(&name, 1);
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    KEEPS(cuGetProcAddress(wanted, &function, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
    KEEPS(cuInit(0));
    KEEPS(cuDeviceGet(&device, 0));
    KEEPS(cuDevicePrimaryCtxRetain(&context, device));
    KEEPS(cuCtxSetCurrent(context));
    KEEPS(cuModuleLoadData(&module, ptx));
    KEEPS(cuModuleGetFunction(&kernel, module, name));
    KEEPS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    KEEPS(cuEventCreate(&event, 0));
    for (int round = 0; round < ROUNDS; round++) {
        KEEPS(cuMemAlloc(&block, sizeof host));
        KEEPS(cuMemcpyHtoDAsync(block, host, sizeof host, stream));
        KEEPS(cuMemsetD8Async(block, 1, sizeof host, stream));
        KEEPS(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        KEEPS(cuEventRecord(event, stream));
        KEEPS(cuMemcpyDtoHAsync(host, block, sizeof host, stream));
        if (round % 10 == 9)
            KEEPS(cuStreamSynchronize(stream));
        KEEPS(cuMemFree(block));
        KEEPS(cudaMalloc(&runtime_block, sizeof host));
        KEEPS(cudaMemcpyAsync(runtime_block, host, sizeof host, cudaMemcpyHostToDevice, stream));
        KEEPS(cudaFree(runtime_block));
    }
    KEEPS(cuEventSynchronize(event));
    KEEPS(cuEventDestroy(event));
    KEEPS(cuStreamDestroy(stream));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, on_another_thread, context));
    CHECK(pthread_join(thread, NULL));
    KEEPS(cuDevicePrimaryCtxRelease(device));
    printf("{\"program\":\"errno_kept\",\"launches\":%d,\"changed\":[", ROUNDS);
    for (int index = 0; index < changes; index++)
        printf("%s\"%s\"", index > 0 ? "," : "", changed[index]);
    printf("]}\n");
    free(ptx);
    return 0;
}
