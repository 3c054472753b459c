// nvcc's <<<...>>> on the dynamic runtime: templates, an overload, a namespace, constant memory, streams and a graph.
#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
    do { \
        cudaError_t error = (call); \
        if (error != cudaSuccess) { \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error)); \
            exit(1); \
        } \
    } while (0)

namespace linear {
template <typename T> __global__ void axpy(const T *x, T *y, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        y[at] += T(0.5) * x[at];
}
}

__constant__ float factor;

__global__ void scale(float *x) { x[threadIdx.x] *= factor; }
__global__ void scale(double *x) { x[threadIdx.x] *= 2; }

enum { ROUNDS = 10, COUNT = 1 << 14 };

int main() {
    float *x, *y;
    double *z;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    static float host[COUNT];
    CHECK(cudaMalloc(&x, sizeof host));
    CHECK(cudaMalloc(&y, sizeof host));
    CHECK(cudaMalloc(&z, sizeof *z * COUNT));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    for (int round = 0; round < ROUNDS; round++) {
        linear::axpy<<<COUNT / 256, 256>>>(x, y, COUNT);  // launches
        linear::axpy<<<COUNT / 256, 256, 0, stream>>>(z, z, COUNT);  // launches
        scale<<<1, 256, 1024>>>(x);  // launches
        scale<<<1, 256, 0, stream>>>(z);  // launches
        CHECK(cudaGetLastError());
    }
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    scale<<<1, 256, 0, stream>>>(x);
    CHECK(cudaMemsetAsync(y, 0, sizeof host, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < ROUNDS; round++)
        CHECK(cudaGraphLaunch(exec, stream));  // launches
    CHECK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    CHECK(cudaFree(z));
    printf("{\"at_least\": {\"captured\": 1}, \"kernels\": [\"scale(float*)\", \"scale(double*)\", "
           "\"void linear::axpy<float>(float const*, float*, int)\", "
           "\"void linear::axpy<double>(double const*, double*, int)\"], "
           "\"calls\": {\"__cudaLaunchKernel\": %d, \"cudaGraphLaunch\": %d, \"cudaMalloc\": 3, \"cudaFree\": 3, "
           "\"cudaMemcpy\": 2, \"cudaDeviceSynchronize\": 1}, \"source\": \"%s\"}\n",
           4 * ROUNDS + 1, ROUNDS, __FILE__);
}
