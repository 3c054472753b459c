// Makes runtime calls that do no work: of zero bytes, of null, and calls that fail before they reach the GPU. Between
// them are one copy and one memset. Checks CUDA's answers, and the last error. Prints the amount of real work.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"

// No kernel is registered under this function's address.
static void not_a_kernel(void) {}

int main(void)
{
    char host[64] = {0};
    char *device, *none = host;
    CHECK(cudaMalloc((void **)&device, sizeof host));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device, 1, sizeof host));

    CHECK(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device, host, 0, cudaMemcpyDefault));
    CHECK(cudaMemcpyAsync(host, device, 0, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaMemset(device, 1, 0));
    CHECK(cudaMemsetAsync(device, 1, 0, 0));
    CHECK(cudaFree(NULL));
    CHECK(cudaFreeHost(NULL));
    CHECK(cudaMalloc((void **)&none, 0));
    REQUIRE(none == NULL);

    REQUIRE(cudaGetLastError() == cudaSuccess);
    REQUIRE(cudaMemcpy(device, host, sizeof host, (enum cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    CHECK(cudaMemset(device, 2, 0)); // a success leaves the last error unchanged
    REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidMemcpyDirection);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
    REQUIRE(cudaGetLastError() == cudaSuccess);
    dim3 one = {1, 1, 1};
    REQUIRE(cudaLaunchKernel((const void *)not_a_kernel, one, one, NULL, 0, 0) == cudaErrorInvalidDeviceFunction);
    REQUIRE(cudaMalloc((void **)&none, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaFree(device));
    printf("{\"program\":\"calls_without_work\",\"launches\":0,\"copies\":1,\"memsets\":1,\"allocations\":1,\"frees\":1}\n");
    return 0;
}
