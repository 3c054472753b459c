// One process allocates memory and another opens it twice, and closes it as often. Each prints a line.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include <sys/wait.h>

#include "common.h"

enum { BYTES = 3 << 20 };

// Exports a handle, and frees the memory once the other process reports that it has closed it.
static void owner(int out, int in)
{
    cudaIpcMemHandle_t handle;
    void *block;
    char word;
    CHECK(cudaMalloc(&block, BYTES));
    CHECK(cudaIpcGetMemHandle(&handle, block));
    REQUIRE(write(out, &handle, sizeof handle) == sizeof handle);
    REQUIRE(read(in, &word, 1) == 1);
    CHECK(cudaFree(block));
}

static void guest(int in, int out)
{
    cudaIpcMemHandle_t handle;
    void *block, *again;
    REQUIRE(read(in, &handle, sizeof handle) == sizeof handle);
    CHECK(cudaIpcOpenMemHandle(&block, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
    REQUIRE(block == again);
    CHECK(cudaMemset(block, 1, BYTES));
    CHECK(cudaIpcCloseMemHandle(block));
    CHECK(cudaIpcCloseMemHandle(again));
    REQUIRE(write(out, "x", 1) == 1);
}

int main(void)
{
    int there[2], back[2], status;
    REQUIRE(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork(); // before either has called CUDA
    REQUIRE(child >= 0);
    if (child == 0) {
        guest(there[0], back[1]);
        return 0;
    }
    owner(there[1], back[0]);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
