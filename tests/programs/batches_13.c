// Copies in batches, by CUDA 13's runtime, which has no place for the index of a copy that failed.
// link: -l:libcudart.so.13
#include <cuda_runtime_api.h>

typedef cudaError_t batch_of_13(void *const *, const void *const *, const size_t *, size_t, struct cudaMemcpyAttributes *,
                                size_t *, size_t, cudaStream_t);
typedef cudaError_t batch_3d_of_13(size_t, struct cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t);

// The headers may be CUDA 12's, which declare these names with other arguments.
batch_of_13 of_13_cudaMemcpyBatchAsync __asm__("cudaMemcpyBatchAsync");
batch_of_13 of_13_cudaMemcpyBatchAsync_ptsz __asm__("cudaMemcpyBatchAsync_ptsz");
batch_3d_of_13 of_13_cudaMemcpy3DBatchAsync __asm__("cudaMemcpy3DBatchAsync");
batch_3d_of_13 of_13_cudaMemcpy3DBatchAsync_ptsz __asm__("cudaMemcpy3DBatchAsync_ptsz");

#define BATCH(function, to, from, sizes, count, attributes, start, stream)                                             \
    of_13_##function(to, (const void *const *)from, sizes, count, attributes, start, 1, stream)
#define BATCH_3D(function, count, operations, stream) of_13_##function(count, operations, 0, stream)

#include "batches.h"

int main(void)
{
    return run_batches("batches_13");
}
