// Gets signals in launches by the runtime's API, in the hooks of both: see signal_at_instruction.h.
//
// The fat binary that it registers contains no device code, so it runs on the simulated runtime only.
// only: x86_64
// link: -l:libcudart.so.12 -l:libcuda.so.1
#define PROGRAM "signal_at_instruction_runtime"
#include "signal_at_instruction.h"

#include <cuda_runtime_api.h>

#include "fat_binary.h"

static void stub(void) {}

static void prepare(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)stub, "main_1us");
    __cudaRegisterFatBinaryEnd(handle);
}

static void launch_main(void)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    dim3 one = {1, 1, 1}, threads = {32, 1, 1};
    CHECK(cudaLaunchKernel((const void *)stub, one, threads, arguments, 0, stream));
}
