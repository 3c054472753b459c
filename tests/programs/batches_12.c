// Copies in batches, by CUDA 12's runtime.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

cudaError_t cudaMemcpyBatchAsync_ptsz(void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *, size_t,
                                      size_t *, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t, struct cudaMemcpy3DBatchOp *, size_t *, unsigned long long, cudaStream_t);

static size_t failed;

#define BATCH(function, to, from, sizes, count, attributes, start, stream)                                             \
    function(to, from, sizes, count, attributes, start, 1, &failed, stream)
#define BATCH_3D(function, count, operations, stream) function(count, operations, &failed, 0, stream)

#include "batches.h"

int main(void)
{
    return run_batches("batches_12");
}
