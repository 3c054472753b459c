// Launches N kernels (default 1000), prints the number, and calls _exit(), which runs no handlers, while the last of
// them are pending: they take two seconds, since a busy machine may let it wait before it does.
// link: -l:libcuda.so.1
#include "launch_and_leave_pending.h"

int main(int argc, char **argv)
{
    launch_and_leave_pending("underscore_exit", argc > 1 ? atoi(argv[1]) : 1000, "last_10000us");
    _exit(6);
}
