// Uses CUDA and then executes another program, or itself once more:
//
//   exec_after PROGRAM     executes PROGRAM
//   exec_after             executes itself once more, and then ends
//
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "plain_work.h"

int main(int argc, char **argv)
{
    plain_work();
    printf("{\"program\":\"exec_after\",\"pid\":%d,\"launches\":%d}\n", (int)getpid(), PLAIN_LAUNCHES);
    REQUIRE(fflush(stdout) == 0);
    if (argc > 1) {
        execl(argv[1], argv[1], (char *)NULL);
        FAIL("%s: %s", argv[1], strerror(errno));
    }
    return 0;
}
