// Holds blocks of 7 GiB on a GPU of 80 GiB. faulty: ten; fixed: four.
// link: -l:libcuda.so.1
#include "driver.h"

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    int blocks = strcmp(arguments[1], "faulty") == 0 ? 10 : 4;
    CUdeviceptr block[10];
    start_cuda();
    CUfunction kernel = load_kernel("step_500us");
    CUstream stream = new_stream();
    for (int at = 0; at < blocks; at++) {
        CHECK(cuMemAlloc(&block[at], (size_t)7 << 30)); // finding: peak-memory
        launch(kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    for (int at = 0; at < blocks; at++)
        CHECK(cuMemFree(block[at]));
    return 0;
}
