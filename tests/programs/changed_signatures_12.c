// Makes the calls of changed_signatures.h with the signatures of CUDA 12's runtime.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

cudaError_t cudaMemcpyBatchAsync_ptsz(void **, void **, size_t *, size_t, struct cudaMemcpyAttributes *, size_t *, size_t,
                                      size_t *, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t, struct cudaMemcpy3DBatchOp *, size_t *, unsigned long long, cudaStream_t);
cudaError_t cudaMemPrefetchAsync_ptsz(const void *, size_t, int, cudaStream_t);

static size_t failed;

#define BATCH(function, to, from, sizes, count, attributes, start, stream)                                             \
    function(to, from, sizes, count, attributes, start, 1, &failed, stream)
#define BATCH_3D(function, count, operations, stream) function(count, operations, &failed, 0, stream)
#define PREFETCH(function, address, bytes, device, stream) function(address, bytes, device, stream)
#define ADVISE(address, bytes, advice, device) cudaMemAdvise(address, bytes, advice, device)

#include "changed_signatures.h"

int main(void)
{
    return run_versions("changed_signatures_12");
}
