// Jumps out of a synchronize call from a signal handler, over the frames of a driver call or of a runtime call. The
// program goes on and launches as before. Prints the number of launches.
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include <cuda_runtime_api.h>

#include "plain_work.h"

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf out;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

// Returns whether the jump was taken.
static bool jumps_out(int (*wait_long)(void))
{
    if (sigsetjmp(out, 1) != 0)
        return true;
    alarm(1);
    wait_long();
    return false;
}

static int by_driver(void)
{
    return cuCtxSynchronize();
}

static int by_runtime(void)
{
    return cudaDeviceSynchronize();
}

int main(void)
{
    signal(SIGALRM, jump);
    start_cuda();
    CHECK(cudaSetDevice(0));
    CUfunction kernel = load_kernel("long_1500ms");
    CUstream stream = new_stream();
    launch(kernel, stream);
    REQUIRE(jumps_out(by_driver));
    CHECK(cuCtxSynchronize());
    launch(kernel, stream);
    REQUIRE(jumps_out(by_runtime));
    CHECK(cuCtxSynchronize());
    plain_work();
    printf("{\"program\":\"longjmp\",\"jumps\":2,\"launches\":%d}\n", PLAIN_LAUNCHES + 2);
    return 0;
}
