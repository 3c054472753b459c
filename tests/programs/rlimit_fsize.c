// CUDA in a process that may not write files beyond 1 MiB: growing one further, a memfd too, would end it by SIGXFSZ.
// link: -l:libcuda.so.1
#include "plain.h"

#include <sys/resource.h>

int main(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit));
    plain_work();
    printf("{\"program\":\"rlimit_fsize\",\"launches\":%d}\n", PLAIN_LAUNCHES);
    return 0;
}
