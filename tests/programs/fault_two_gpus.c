// Holds memory on two GPUs of 80 GiB. faulty: 10 GiB on the first and 70 GiB on the second, which is then asked for 20 GiB
// more and has no room for them; fixed: 40 GiB on each, and 20 GiB more.
// link: -l:libcuda.so.1
#include "driver.h"

enum { DEVICES = 2 };

int main(int count, char **arguments)
{
    REQUIRE(count == 2);
    bool faulty = strcmp(arguments[1], "faulty") == 0;
    size_t held[DEVICES] = {faulty ? 10 : 40, faulty ? 70 : 40};
    CUdeviceptr block[DEVICES], more;
    start_cuda();
    for (int device = 0; device < DEVICES; device++) {
        CUcontext context;
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        CUstream stream = new_stream();
        CHECK(cuMemAlloc(&block[device], held[device] << 30));
        launch(load_kernel("step_500us"), stream);
        CHECK(cuStreamSynchronize(stream));
    }
    CUresult result = cuMemAlloc(&more, (size_t)20 << 30);
    REQUIRE(result == (faulty ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS));
    return 0;
}
