// Makes the calls of changed_signatures.h with the signatures of CUDA 13's runtime: without an argument for the index of a failed
// copy, and with locations.
// link: -l:libcudart.so.13
#include <cuda_runtime_api.h>
#include <stdbool.h>

typedef cudaError_t batch_of_13(void *const *, const void *const *, const size_t *, size_t, struct cudaMemcpyAttributes *,
                                size_t *, size_t, cudaStream_t);
typedef cudaError_t batch_3d_of_13(size_t, struct cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t);

typedef cudaError_t prefetch_of_13(const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t);
typedef cudaError_t advise_of_13(const void *, size_t, enum cudaMemoryAdvise, struct cudaMemLocation);

// The headers may be CUDA 12's, which declare these names with other arguments.
batch_of_13 of_13_cudaMemcpyBatchAsync __asm__("cudaMemcpyBatchAsync");
batch_of_13 of_13_cudaMemcpyBatchAsync_ptsz __asm__("cudaMemcpyBatchAsync_ptsz");
batch_3d_of_13 of_13_cudaMemcpy3DBatchAsync __asm__("cudaMemcpy3DBatchAsync");
batch_3d_of_13 of_13_cudaMemcpy3DBatchAsync_ptsz __asm__("cudaMemcpy3DBatchAsync_ptsz");
prefetch_of_13 of_13_cudaMemPrefetchAsync __asm__("cudaMemPrefetchAsync");
prefetch_of_13 of_13_cudaMemPrefetchAsync_ptsz __asm__("cudaMemPrefetchAsync_ptsz");
advise_of_13 of_13_cudaMemAdvise __asm__("cudaMemAdvise");

static struct cudaMemLocation location(int device)
{
    bool is_host = device == cudaCpuDeviceId;
    return (struct cudaMemLocation){is_host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, is_host ? 0 : device};
}

#define BATCH(function, to, from, sizes, count, attributes, start, stream)                                             \
    of_13_##function(to, (const void *const *)from, sizes, count, attributes, start, 1, stream)
#define BATCH_3D(function, count, operations, stream) of_13_##function(count, operations, 0, stream)
#define PREFETCH(function, address, bytes, device, stream)                                                             \
    of_13_##function(address, bytes, location(device), 0, stream)
#define ADVISE(address, bytes, advice, device) of_13_cudaMemAdvise(address, bytes, advice, location(device))

#include "changed_signatures.h"

int main(void)
{
    return run_versions("changed_signatures_13");
}
