// 100 steps of 20 kernels of 20 us on each of two GPUs. The fault: the thread changes the GPU after each launch. The twin
// issues all kernels of one GPU before those of the other.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 100, LAUNCHES = 20, DEVICES = 2 };

static CUcontext contexts[DEVICES];
static CUfunction kernels[DEVICES];
static CUstream streams[DEVICES];

static void launch_on(int device)
{
    CHECK(cuCtxSetCurrent(contexts[device]));
    launch(kernels[device], streams[device]);
}

int main(int argc, char **argv)
{
    begin(argc, argv, "first_1us");
    for (int device = 0; device < DEVICES; device++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
        kernels[device] = load_kernel("step_20us");
        streams[device] = new_stream();
    }
    begin_loop();
    for (int step = 0; step < STEPS; step++) {
        for (int n = 0; n < LAUNCHES * DEVICES; n++)
            launch_on(is_faulty ? n % DEVICES : n / LAUNCHES);
        for (int device = 0; device < DEVICES; device++)
            CHECK(cuStreamSynchronize(streams[device]));
    }
    CHECK(cuCtxSetCurrent(contexts[0]));
    return end_loop();
}
