// Uses two GPUs. While work is on the first one, a thread without a current context calls cudaDeviceReset, which resets that GPU.
// Then there is work on the second one. Prints the number of launches.
// link: -l:libcuda.so.1 -l:libcudart.so.12
#include "driver.h"

enum { DEVICES = 2, LAUNCHES = 40 };

int cudaDeviceReset(void);

static void *reset(void *nothing)
{
    CHECK(cudaDeviceReset());
    return nothing;
}

int main(void)
{
    CUcontext contexts[DEVICES];
    CUfunction kernels[DEVICES];
    CUstream streams[DEVICES];
    CHECK(cuInit(0));
    for (int device = 0; device < DEVICES; device++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
        kernels[device] = load_kernel("pending_100us");
        streams[device] = new_stream();
    }
    CHECK(cuCtxSetCurrent(contexts[0]));
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernels[0], streams[0]);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reset, NULL));
    CHECK(pthread_join(thread, NULL));
    CHECK(cuCtxSetCurrent(contexts[1]));
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernels[1], streams[1]);
    CHECK(cuStreamSynchronize(streams[1]));
    printf("{\"program\":\"reset_from_new_thread\",\"launches\":%d}\n", DEVICES * LAUNCHES);
    return 0;
}
