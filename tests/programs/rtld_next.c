// A program whose launches go through a library that forwards them by dlsym(RTLD_NEXT): each must be seen by it once.
// link: -l:libmiddle.so -l:libcuda.so.1
#include "plain.h"

int middle_calls(void);

int main(void)
{
    plain_work();
    printf("{\"program\":\"rtld_next\",\"launches\":%d,\"middle_calls\":%d}\n", PLAIN_LAUNCHES, middle_calls());
    REQUIRE(middle_calls() == PLAIN_LAUNCHES);
    return 0;
}
