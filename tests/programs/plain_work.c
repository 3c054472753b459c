// Does some plain work on one stream: 200 launches, an allocation and a free. Prints the number of launches.
// link: -l:libcuda.so.1
#include "plain_work.h"

int main(void)
{
    plain_work();
    printf("{\"program\":\"plain_work\",\"pid\":%d,\"launches\":%d}\n", (int)getpid(), PLAIN_LAUNCHES);
    return 0;
}
