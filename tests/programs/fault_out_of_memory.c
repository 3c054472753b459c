// Holds 60 GiB of a GPU of 80 GiB, and asks for another block. faulty: for 30 GiB, which fails; fixed: for 2 GiB.
// link: -l:libcuda.so.1
#include "driver.h"

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool faulty = strcmp(arguments[1], "faulty") == 0;
    CUdeviceptr weights, optimizer, batch;
    start_cuda();
    CUfunction kernel = load_kernel("step_500us");
    CUstream stream = new_stream();
    CHECK(cuMemAlloc(&weights, (size_t)20 << 30));
    CHECK(cuMemAlloc(&optimizer, (size_t)40 << 30));
    launch(kernel, stream);
    CUresult result = cuMemAlloc(&batch, (size_t)(faulty ? 30 : 2) << 30); // finding: out-of-memory
    REQUIRE(result == (faulty ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS));
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
