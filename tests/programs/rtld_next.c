// Launches through a library that forwards the launches by dlsym(RTLD_NEXT): the library must get each of them once.
// link: -l:libmiddle.so -l:libcuda.so.1
#include "plain_work.h"

int middle_calls(void);

int main(void)
{
    plain_work();
    printf("{\"program\":\"rtld_next\",\"launches\":%d,\"middle_calls\":%d}\n", PLAIN_LAUNCHES, middle_calls());
    REQUIRE(middle_calls() == PLAIN_LAUNCHES);
    return 0;
}
