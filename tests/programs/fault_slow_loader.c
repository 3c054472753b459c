// 60 steps of 10 kernels of 300 us, each of which needs a batch that a loader thread prepares in 6 ms, and the host reads the loss
// in each step. The fault: there is one loader, and the GPU needs two. That the loss is read costs nothing: the next batch comes no
// earlier.
// link: -l:libcuda.so.1
#include "fault.h"

#include <semaphore.h>

enum { STEPS = 60, LAUNCHES = 10, LOAD_US = 6000, LOADERS = 3, BYTES = 1 << 20 };

static sem_t batches;
static atomic_int begun;

static void *load(void *unused)
{
    (void)unused;
    while (atomic_fetch_add(&begun, 1) < STEPS) {
        pause_us(LOAD_US);
        REQUIRE(sem_post(&batches) == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    begin(argc, argv, "step_300us");
    CUdeviceptr input = device_memory(BYTES), loss = device_memory(4);
    char *host = pinned_memory(BYTES);
    float *value = pinned_memory(sizeof *value);
    pthread_t loaders[LOADERS];
    int count = is_faulty ? 1 : LOADERS;
    REQUIRE(sem_init(&batches, 0, 0) == 0);
    begin_loop();
    for (int n = 0; n < count; n++)
        REQUIRE(pthread_create(&loaders[n], NULL, load, NULL) == 0);
    for (int step = 0; step < STEPS; step++) {
        while (sem_wait(&batches) != 0 && errno == EINTR) {
        }
        CHECK(cuMemcpyHtoDAsync(input, host, BYTES, stream)); // finding: host-stall
        for (int n = 0; n < LAUNCHES; n++)
            launch(kernel, stream);
        CHECK(cuMemcpyDtoHAsync(value, loss, sizeof *value, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    for (int n = 0; n < count; n++)
        REQUIRE(pthread_join(loaders[n], NULL) == 0);
    return end_loop();
}
