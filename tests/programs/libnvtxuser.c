// A library that marks its work with NVTX, as frameworks do. Its copy of NVTX is not the program's.
#include <nvtx3/nvToolsExt.h>

void library_range(void (*work)(void))
{
    nvtxRangePushA("in a library");
    work();
    nvtxRangePop();
}
