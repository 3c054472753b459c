// Starts 200 threads, 20 at a time, that each launch a little and end. The last of each twenty ends with its launches
// pending. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { WAVES = 10, AT_ONCE = 20, EACH = 15 };

static CUcontext context;
static CUfunction kernel;
static CUstream streams[AT_ONCE];

static void *launch_a_little(void *index)
{
    CUstream stream = streams[(intptr_t)index];
    CHECK(cuCtxSetCurrent(context));
    for (int launched = 0; launched < EACH; launched++)
        launch(kernel, stream);
    if ((intptr_t)index != AT_ONCE - 1)
        CHECK(cuStreamSynchronize(stream));
    return NULL;
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("little_5us");
    for (int index = 0; index < AT_ONCE; index++)
        streams[index] = new_stream();
    for (int wave = 0; wave < WAVES; wave++)
        run_threads(AT_ONCE, launch_a_little);
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"many_threads\",\"threads\":%d,\"launches\":%d}\n", WAVES * AT_ONCE, WAVES * AT_ONCE * EACH);
    return 0;
}
