// Uses CUDA, forks a child that lives on for seconds, and executes another program:
//
//   exec_beside_child PROGRAM ARGUMENTS…
//
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "plain_work.h"

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    plain_work();
    printf("{\"program\":\"exec_beside_child\",\"launches\":%d}\n", PLAIN_LAUNCHES);
    REQUIRE(fflush(stdout) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        pause_us(6000000);
        _exit(0);
    }
    execvp(argv[1], argv + 1);
    FAIL("%s: %s", argv[1], strerror(errno));
}
