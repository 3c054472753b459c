// What the clients with a fault and their twins without it share: `PROGRAM faulty` or `PROGRAM fixed` runs a loop of steps,
// and prints how long the loop took.
#pragma once
#include "driver.h"

static bool is_faulty;
static CUfunction kernel;
static CUstream stream;
static uint64_t loop_began;

static inline CUdeviceptr device_memory(size_t bytes)
{
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, bytes));
    return block;
}

static inline void *pinned_memory(size_t bytes)
{
    void *block;
    CHECK(cuMemAllocHost(&block, bytes));
    return block;
}

// Initializes CUDA, and loads the kernel that `kernel` stands for.
static inline void begin(int argc, char **argv, const char *kernel_name)
{
    REQUIRE(argc == 2 && (strcmp(argv[1], "faulty") == 0 || strcmp(argv[1], "fixed") == 0));
    is_faulty = argv[1][1] == 'a';
    start_cuda();
    kernel = load_kernel(kernel_name);
    stream = new_stream();
    launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
}

static inline void launch_grid(CUfunction function, unsigned blocks, unsigned threads, CUstream on)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, on, arguments, NULL));
}

static inline void begin_loop(void)
{
    loop_began = now_ns();
}

// Waits for the GPU, and prints the time since begin_loop().
static inline int end_loop(void)
{
    CHECK(cuStreamSynchronize(stream));
    printf("{\"loop_ns\":%" PRIu64 "}\n", now_ns() - loop_began);
    return 0;
}
