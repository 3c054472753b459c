// Makes calls that wait for the GPU although they are no synchronize calls, each after a kernel of 4 ms, and similar
// calls that do not wait. Prints, by API, how many of them had to wait.
// link: -l:libcuda.so.1 -l:libcudart.so.12
#include "driver.h"

enum { ROUNDS = 3, BYTES = 1 << 20, SMALL = 64 };

int cudaFree(void *memory);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);

enum { TO_HOST = 2 };

static CUfunction kernel;
static CUstream stream, other;
static char *pageable;
static void *pinned;
static CUdeviceptr memory;

// Makes a call that has to wait.
#define WAITS(api, arguments) COUNTED(#api, api arguments)

// Keeps the GPU busy for milliseconds, so that the next call finds it at work.
static void busy(CUstream on)
{
    CHECK(cuCtxSynchronize());
    launch(kernel, on);
}

static void frees(void)
{
    CUdeviceptr block;
    void *host;
    CHECK(cuMemAlloc(&block, BYTES));
    busy(stream);
    launch(kernel, other);
    WAITS(cuMemFree, (block));
    CHECK(cuMemAlloc(&block, BYTES));
    busy(other);
    WAITS(cudaFree, ((void *)block));
    CHECK(cuMemAllocHost(&host, BYTES));
    busy(stream);
    WAITS(cuMemFreeHost, (host));
    busy(stream);
    WAITS(cuMemHostUnregister, (pageable));
    CHECK(cuMemHostRegister(pageable, BYTES, 0));
}

static void copies(void)
{
    busy(stream);
    WAITS(cuMemcpyDtoHAsync, (pageable + BYTES, memory, SMALL, stream));
    busy(stream);
    WAITS(cuMemcpyHtoDAsync, (memory, pageable + BYTES, BYTES, stream));
    // Non-blocking streams: the legacy stream's copies do not wait for them.
    busy(CU_STREAM_LEGACY);
    WAITS(cuMemcpyDtoH, (pinned, memory, BYTES));
    busy(CU_STREAM_LEGACY);
    WAITS(cudaMemcpy, (pageable + BYTES, (void *)memory, BYTES, TO_HOST));
}

static void code(void)
{
    CUmodule module;
    const char *name = "unused_1us";
    char *ptx = ptx_module(&name, 1);
    busy(stream);
    WAITS(cuModuleLoadData, (&module, ptx));
    free(ptx);
    busy(stream);
    WAITS(cuModuleUnload, (module));
}

// None of these waits: the GPU is idle, other streams work, or the copy is asynchronous.
static void nothing(void)
{
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, BYTES));
    CHECK(cuCtxSynchronize());
    pause_us(1000);
    CHECK(cuMemFree(block));
    busy(stream);
    CHECK(cuMemcpyDtoHAsync(pinned, memory, BYTES, stream));
    CHECK(cuMemcpyDtoHAsync(pageable + BYTES, memory, SMALL, other));
    CHECK(cuMemcpyDtoH(pinned, memory, SMALL));
    CHECK(cuMemAlloc(&block, BYTES));
    CHECK(cuCtxSynchronize());
    pause_us(1000);
    CHECK(cuMemFree(block));
}

int main(void)
{
    start_cuda();
    kernel = load_kernel("spin_4ms");
    stream = new_stream();
    other = new_stream();
    pageable = malloc(2 * BYTES);
    REQUIRE(pageable != NULL);
    CHECK(cuMemAlloc(&memory, BYTES));
    CHECK(cuMemAllocHost(&pinned, BYTES));
    CHECK(cuMemHostRegister(pageable, BYTES, 0));
    for (int round = 0; round < ROUNDS; round++) {
        frees();
        copies();
        code();
        nothing();
    }
    busy(stream);
    WAITS(cuDevicePrimaryCtxReset, (0));
    printf("{");
    print_counts("waits", "cu", NULL);
    puts("}");
    return 0;
}
