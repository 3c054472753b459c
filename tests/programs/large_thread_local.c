// Launches kernels in a process whose threads each have 250 KiB of thread-local variables, which glibc takes from their stacks.
// link: -l:libcuda.so.1
#include "driver.h"

enum { LAUNCHES = 100 };

static _Thread_local volatile char variables[250 << 10];

int main(void)
{
    variables[sizeof variables - 1] = 1;
    start_cuda();
    CUfunction kernel = load_kernel("work_5us");
    CUstream stream = new_stream();
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"launches\":%d}\n", LAUNCHES);
    return 0;
}
