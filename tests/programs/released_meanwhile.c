// Launches on the primary context, which the runtime keeps alive. Soon after each launch has begun, two threads retain and
// release the context again and again until the launch is over. No release ends it. Prints the number of launches.
// link: -l:libcuda.so.1 -l:libcudart.so.12
#include "driver.h"

enum { LAUNCHES = 4, OTHERS = 2 };

int cudaFree(void *block);

static atomic_bool is_launching, is_over;

static void *retain_and_release(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&is_over)) {
        pause_us(50000);
        while (atomic_load(&is_launching)) {
            CUcontext primary;
            CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
            CHECK(cuDevicePrimaryCtxRelease(0));
        }
    }
    return NULL;
}

int main(void)
{
    CHECK(cudaFree(NULL));
    CUfunction kernel = load_kernel("kept_10us");
    CUstream stream = new_stream();
    pthread_t others[OTHERS];
    for (int n = 0; n < OTHERS; n++)
        CHECK(pthread_create(&others[n], NULL, retain_and_release, NULL));
    for (int n = 0; n < LAUNCHES; n++) {
        atomic_store(&is_launching, true);
        launch(kernel, stream);
        atomic_store(&is_launching, false);
        pause_us(100000);
    }
    CHECK(cuStreamSynchronize(stream));
    atomic_store(&is_over, true);
    for (int n = 0; n < OTHERS; n++)
        CHECK(pthread_join(others[n], NULL));
    printf("{\"program\":\"released_meanwhile\",\"launches\":%d}\n", LAUNCHES);
    return 0;
}
