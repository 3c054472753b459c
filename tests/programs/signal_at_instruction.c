// Gets signals in launches by the driver's API: see signal_at_instruction.h.
// only: x86_64
// link: -l:libcuda.so.1
#define PROGRAM "signal_at_instruction"
#include "signal_at_instruction.h"

static CUfunction kernel;

static void prepare(void)
{
    kernel = load_kernel("main_1us");
}

static void launch_main(void)
{
    launch(kernel, stream);
}
