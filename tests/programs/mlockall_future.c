// Uses CUDA in a process whose every mapping, present and future, is locked into memory, so that a large sparse mapping
// becomes resident at once. Prints the process's resident memory before and after. Exits with 77 if this is not
// permitted.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <sys/mman.h>

int main(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        fprintf(stderr, "mlockall_future: not permitted: %s\n", strerror(errno));
        return EXIT_SKIPPED;
    }
    long before = process_status("VmRSS: %ld");
    plain_work();
    printf("{\"program\":\"mlockall_future\",\"launches\":%d,\"resident_kib_before\":%ld,\"resident_kib_after\":%ld}\n",
           PLAIN_LAUNCHES, before, process_status("VmRSS: %ld"));
    return 0;
}
