// Uses CUDA in a process that may not write files beyond a size (default 1 MiB): enlarging a file further, or a memfd,
// would end it with SIGXFSZ.
//
//   rlimit_fsize [BYTES]
//
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    rlim_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20;
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit));
    plain_work();
    printf("{\"program\":\"rlimit_fsize\",\"launches\":%d}\n", PLAIN_LAUNCHES);
    return 0;
}
