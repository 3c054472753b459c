// Kernels of which one fails while the host waits for it. faulty: it uses an illegal address, after which each call returns that
// error; fixed: it does not. Prints how many calls returned it.
// link: -l:libcuda.so.1
#include "fault.h"

static unsigned stopped;

static void count_error(CUresult result)
{
    REQUIRE(result == (is_faulty ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS));
    stopped += result != CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
    CUdeviceptr block;
    begin(argc, argv, "done_50us");
    // The first launch from a module takes long. The one that fails runs for a second, so that all are queued before.
    CUfunction behind = load_kernel("behind_20us");
    CUfunction scatter = load_kernel(is_faulty ? "scatter_fault700_1000ms" : "scatter_200ms");
    launch(kernel, stream);
    launch(behind, new_stream());
    CHECK(cuCtxSynchronize());
    launch(scatter, stream);
    launch(behind, stream);
    CUresult result = cuStreamSynchronize(stream); // finding: gpu-error
    count_error(result);
    count_error(cuCtxSynchronize());
    count_error(cuMemAlloc(&block, 4096));
    printf("{\"stopped\":%u}\n", stopped);
    return 0;
}
