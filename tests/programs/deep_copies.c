// Fills a stream at once with steps of two kernels of 4 ms and a copy between them: nothing completes while they are enqueued, so that the
// stream is too deep for events around the copies. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STEPS = 40, BYTES = 16 << 20 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("layer_4000us");
    CUstream stream = new_stream();
    CUdeviceptr device;
    void *host;
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemAllocHost(&host, BYTES));
    for (int step = 0; step < STEPS; step++) {
        launch(kernel, stream);
        CHECK(cuMemcpyHtoDAsync(device, host, BYTES, stream));
        launch(kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"deep_copies\",\"launches\":%d}\n", 2 * STEPS);
    return 0;
}
