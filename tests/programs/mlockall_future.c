// CUDA in a process whose every mapping, present and future, is locked into memory: a large sparse mapping becomes
// resident at once. Prints how much memory the process had locked before and after. Exit code 77 where it is not permitted.
// link: -l:libcuda.so.1
#include "plain.h"

#include <sys/mman.h>

static long locked_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmLck: %ld", &kib) == 1)
            break;
    fclose(status);
    return kib;
}

int main(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        fprintf(stderr, "mlockall_future: not permitted: %s\n", strerror(errno));
        return EXIT_SKIPPED;
    }
    long before = locked_kib();
    uint64_t start = now_ns();
    plain_work();
    printf("{\"program\":\"mlockall_future\",\"launches\":%d,\"locked_kib_before\":%ld,\"locked_kib_after\":%ld,\"ns\":%" PRIu64 "}\n",
           PLAIN_LAUNCHES, before, locked_kib(), now_ns() - start);
    return 0;
}
