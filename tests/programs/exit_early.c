// Launches N kernels (default 1000) and calls exit() in a nested function while the last of them are pending. Prints
// the number of launches.
// link: -l:libcuda.so.1
#include "launch_and_leave_pending.h"

__attribute__((noinline)) static void leave(void)
{
    exit(5);
}

int main(int argc, char **argv)
{
    launch_and_leave_pending("exit_early", argc > 1 ? atoi(argv[1]) : 1000, "last_100us");
    leave();
    return EXIT_FAILED_CALL;
}
