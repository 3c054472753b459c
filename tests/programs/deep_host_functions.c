// The host enqueues kernels of 50 us as fast as it can, hundreds ahead of the GPU, and after each EVERY of them a function on the
// host that takes 300 us, for which the next kernels wait: frameworks wait for callbacks like this. Prints the number of launches
// and of functions.
//
//   deep_host_functions [LAUNCHES [EVERY]]
// link: -l:libcuda.so.1
#include "driver.h"

enum { FUNCTION_US = 300 };

static void on_host(void *unused)
{
    (void)unused;
    pause_us(FUNCTION_US);
}

int main(int argc, char **argv)
{
    int launches = argc > 1 ? atoi(argv[1]) : 3000, every = argc > 2 ? atoi(argv[2]) : 10;
    start_cuda();
    CUfunction kernel = load_kernel("between_functions_50us");
    CUstream stream = new_stream();
    launch(kernel, stream);
    CHECK(cuCtxSynchronize());
    for (int n = 0; n < launches; n++) {
        launch(kernel, stream);
        if ((n + 1) % every == 0)
            CHECK(cuLaunchHostFunc(stream, on_host, NULL));
    }
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"deep_host_functions\",\"launches\":%d,\"functions\":%d}\n", launches + 1, launches / every);
    return 0;
}
