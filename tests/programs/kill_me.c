// Launches N kernels (default 3000), prints the number, and kills itself with SIGKILL while the last of them are
// pending: they take two seconds, since a busy machine may let it wait before it does.
// link: -l:libcuda.so.1
#include "launch_and_leave_pending.h"

#include <signal.h>

int main(int argc, char **argv)
{
    launch_and_leave_pending("kill_me", argc > 1 ? atoi(argv[1]) : 3000, "last_10000us");
    raise(SIGKILL);
    return EXIT_FAILED_CALL;
}
