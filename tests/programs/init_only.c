// Makes one CUDA call (cuInit) and ends.
// link: -l:libcuda.so.1
#include "driver.h"

int main(void)
{
    CHECK(cuInit(0));
    printf("{\"program\":\"init_only\",\"pid\":%d,\"launches\":0}\n", (int)getpid());
    return 0;
}
