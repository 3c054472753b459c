// Some plain work on one stream: 200 launches, an allocation and a free.
// link: -l:libcuda.so.1
#include "plain.h"

int main(void)
{
    plain_work();
    printf("{\"program\":\"plain_work\",\"pid\":%d,\"launches\":%d}\n", (int)getpid(), PLAIN_LAUNCHES);
    return 0;
}
