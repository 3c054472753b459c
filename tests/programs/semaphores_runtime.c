// Uses semaphores of another API through the runtime, with the structures of CUDA 12 and with those that programs of
// CUDA 11 still pass: one stream waits for what the other signals. Prints the launches and the calls.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

#include <sys/mman.h>

enum { ROUNDS = 10 };

// cudaExternalSemaphoreSignalParams_v1 and WaitParams_v1 end after their flags.
cudaError_t signal_11(const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreSignalParams_v1 *, unsigned,
                      cudaStream_t) __asm__("cudaSignalExternalSemaphoresAsync");
cudaError_t wait_11(const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreWaitParams_v1 *, unsigned,
                    cudaStream_t) __asm__("cudaWaitExternalSemaphoresAsync");

static void first(void) {}
static void then(void) {}

static void launch(void (*stub)(void), cudaStream_t stream)
{
    CHECK(cudaLaunchKernel((const void *)stub, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, stream));
}

static void take_turns(const cudaExternalSemaphore_t *semaphores, cudaStream_t ahead, cudaStream_t behind, unsigned round)
{
    launch(then, behind);
    if (round % 2 == 0) {
        struct cudaExternalSemaphoreSignalParams signal[2] = {{.params.fence.value = round}, {.params.fence.value = round}};
        struct cudaExternalSemaphoreWaitParams wait[2] = {{.params.fence.value = round}, {.params.fence.value = round}};
        COUNTED("cudaWaitExternalSemaphoresAsync", cudaWaitExternalSemaphoresAsync(semaphores, wait, 2, behind));
        launch(then, behind);
        launch(first, ahead);
        COUNTED("cudaSignalExternalSemaphoresAsync", cudaSignalExternalSemaphoresAsync(semaphores, signal, 2, ahead));
    } else {
        struct cudaExternalSemaphoreSignalParams_v1 signal[2] = {{.params.fence.value = round}, {.params.fence.value = round}};
        struct cudaExternalSemaphoreWaitParams_v1 wait[2] = {{.params.fence.value = round}, {.params.fence.value = round}};
        COUNTED("cudaWaitExternalSemaphoresAsync", wait_11(semaphores, wait, 2, behind));
        launch(then, behind);
        launch(first, ahead);
        COUNTED("cudaSignalExternalSemaphoresAsync", signal_11(semaphores, signal, 2, ahead));
    }
    CHECK(cudaStreamSynchronize(behind));
}

int main(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)first, "first_200us");
    register_kernel(handle, (const void *)then, "then_5us");
    __cudaRegisterFatBinaryEnd(handle);
    cudaStream_t ahead, behind;
    cudaExternalSemaphore_t semaphores[2];
    CHECK(cudaStreamCreateWithFlags(&ahead, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
    for (int semaphore = 0; semaphore < 2; semaphore++) {
        struct cudaExternalSemaphoreHandleDesc description = {.type = cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd};
        REQUIRE((description.handle.fd = memfd_create("semaphore", 0)) >= 0);
        CHECK(cudaImportExternalSemaphore(&semaphores[semaphore], &description));
    }
    REQUIRE(cudaImportExternalSemaphore(&semaphores[0], NULL) == cudaErrorInvalidValue);
    cudaGetLastError();
    for (unsigned round = 1; round <= ROUNDS; round++)
        take_turns(semaphores, ahead, behind, round);
    CHECK(cudaDestroyExternalSemaphore(semaphores[0]));
    CHECK(cudaDestroyExternalSemaphore(semaphores[1]));
    REQUIRE(cudaDestroyExternalSemaphore(semaphores[1]) != cudaSuccess);
    printf("{\"program\":\"semaphores_runtime\",\"launches\":%d,\"kernels\":{\"first_200us\":%d,\"then_5us\":%d},", 3 * ROUNDS,
           ROUNDS, 2 * ROUNDS);
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
