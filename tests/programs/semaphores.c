// Uses semaphores of another API between two streams: kernels on one wait for kernels on the other, by value,
// alternately. Work on the waiting stream waits for as long as the other stream's work takes. Prints the launches.
// link: -l:libcuda.so.1
#include "driver.h"

#include <sys/mman.h>

enum { ROUNDS = 20 };

static CUexternalSemaphore import(CUexternalSemaphoreHandleType type)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC description = {.type = type};
    CUexternalSemaphore semaphore;
    REQUIRE((description.handle.fd = memfd_create("semaphore", 0)) >= 0);
    CHECK(cuImportExternalSemaphore(&semaphore, &description));
    return semaphore;
}

int main(void)
{
    start_cuda();
    CUfunction first = load_kernel("first_200us"), then = load_kernel("then_5us");
    CUstream ahead = new_stream(), behind = new_stream();
    CUexternalSemaphore semaphores[] = {import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD),
                                        import(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD)};
    for (int round = 1; round <= ROUNDS; round++) {
        CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal[2] = {{.params.fence.value = (unsigned)round}};
        CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait[2] = {{.params.fence.value = (unsigned)round}};
        launch(then, behind);
        COUNTED("cuWaitExternalSemaphoresAsync", cuWaitExternalSemaphoresAsync(semaphores, wait, 2, behind));
        launch(then, behind);
        launch(first, ahead);
        COUNTED("cuSignalExternalSemaphoresAsync", cuSignalExternalSemaphoresAsync(semaphores, signal, 2, ahead));
        CHECK(cuStreamSynchronize(behind));
    }
    CHECK(cuDestroyExternalSemaphore(semaphores[0]));
    CHECK(cuDestroyExternalSemaphore(semaphores[1]));
    printf("{\"program\":\"semaphores\",\"launches\":%d,\"kernels\":{\"first_200us\":%d,\"then_5us\":%d},", 3 * ROUNDS, ROUNDS,
           2 * ROUNDS);
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
