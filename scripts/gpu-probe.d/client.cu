// Makes CUDA runtime calls, each followed by a marker for trace.c. nvcc builds it once with the static runtime and once
// with the shared one. It does not link the driver, so every driver function is found by its runtime.
#include <cuda_runtime.h>
#include <stdio.h>

extern "C" void probe_mark(const char *label, int result) __attribute__((weak));
#define CALL(call) probe_mark(#call, (int)(call))

__global__ void empty_kernel() {}

static void host_function(void *) {}

int main()
{
    if (!probe_mark) {
        fprintf(stderr, "not preloaded\n");
        return 1;
    }
    void *device, *other, *pool_memory, *host;
    static char pageable[4096];
    cudaStream_t stream;
    cudaEvent_t event, second;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float ms;
    CALL(cudaFree(0));
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaEventCreate(&event));
    CALL(cudaEventCreateWithFlags(&second, cudaEventDisableTiming));
    CALL(cudaMalloc(&device, 4096));
    CALL(cudaMalloc(&other, 4096));
    CALL(cudaMallocHost(&host, 4096));
    CALL(cudaMallocAsync(&pool_memory, 4096, stream));
    empty_kernel<<<1, 1, 0, stream>>>();
    probe_mark("kernel<<<>>> (first)", (int)cudaPeekAtLastError());
    empty_kernel<<<1, 1, 0, stream>>>();
    probe_mark("kernel<<<>>>", (int)cudaPeekAtLastError());
    empty_kernel<<<1, 1>>>();
    probe_mark("kernel<<<>>> on the null stream", (int)cudaPeekAtLastError());
    empty_kernel<<<1, 1, 0, cudaStreamPerThread>>>();
    probe_mark("kernel<<<>>> on cudaStreamPerThread", (int)cudaPeekAtLastError());
    CALL(cudaLaunchKernel((const void *)empty_kernel, 1, 1, nullptr, 0, stream));
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = 1;
    config.stream = stream;
    CALL(cudaLaunchKernelExC(&config, (const void *)empty_kernel, nullptr));
    CALL(cudaLaunchCooperativeKernel((const void *)empty_kernel, 1, 1, nullptr, 0, stream));
    CALL(cudaLaunchHostFunc(stream, host_function, nullptr));
    CALL(cudaEventRecord(event, stream));
    CALL(cudaEventRecord(second, stream));
    CALL(cudaStreamWaitEvent(stream, second, 0));
    CALL(cudaEventQuery(event));
    CALL(cudaEventSynchronize(event));
    CALL(cudaEventElapsedTime(&ms, event, event));
    CALL(cudaStreamQuery(stream));
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemcpy(device, pageable, 4096, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(pageable, device, 4096, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(other, device, 4096, cudaMemcpyDeviceToDevice));
    CALL(cudaMemcpy(other, device, 4096, cudaMemcpyDefault));
    CALL(cudaMemcpy(pageable, host, 4096, cudaMemcpyHostToHost));
    CALL(cudaMemcpy(device, pageable, 0, cudaMemcpyHostToDevice));
    CALL(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream));
    CALL(cudaMemcpyAsync(host, device, 4096, cudaMemcpyDeviceToHost, stream));
    CALL(cudaMemcpyAsync(other, device, 4096, cudaMemcpyDeviceToDevice, stream));
    CALL(cudaMemcpyAsync(host, device, 4096, cudaMemcpyDefault, stream));
    CALL(cudaMemcpy2DAsync(device, 64, host, 64, 32, 4, cudaMemcpyHostToDevice, stream));
    CALL(cudaMemcpyPeerAsync(other, 0, device, 0, 4096, stream));
    CALL(cudaMemset(device, 0, 4096));
    CALL(cudaMemsetAsync(device, 0, 4096, stream));
    CALL(cudaMemset2DAsync(device, 64, 0, 32, 4, stream));
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    empty_kernel<<<1, 1, 0, stream>>>();
    probe_mark("kernel<<<>>> captured", (int)cudaPeekAtLastError());
    CALL(cudaStreamEndCapture(stream, &graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    CALL(cudaGraphLaunch(executable, stream));
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaGraphExecDestroy(executable));
    CALL(cudaGraphDestroy(graph));
    CALL(cudaFreeAsync(pool_memory, stream));
    CALL(cudaHostRegister(pageable, 4096, 0));
    CALL(cudaHostUnregister(pageable));
    void *managed;
    CALL(cudaMallocManaged(&managed, 4096));
    CALL(cudaFree(managed));
    CALL(cudaFree(device));
    CALL(cudaFreeHost(host));
    CALL(cudaEventDestroy(event));
    CALL(cudaStreamDestroy(stream));
    CALL(cudaDeviceReset());
    return 0;
}
