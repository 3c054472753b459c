// Runs a program as a user who may have only some processes and threads, which are not limited for root. Each number of them
// is for a user of its own: processes that have just ended still count.
//
//   as_other_user PROCESSES AGENT PROGRAM [ARGUMENT ...]
//
// AGENT is preloaded into the program; an empty one is not. Exits with 77 if it is not root, or the user cannot read the
// program.
#include <grp.h>
#include <sys/resource.h>

#include "common.h"

// Nobody has these.
enum { USERS = 61200 };

int main(int argc, char **argv)
{
    REQUIRE(argc > 3);
    rlim_t most = strtoul(argv[1], NULL, 10);
    struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
    unsigned user = USERS + most;
    if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) {
        fputs("other users are for root only\n", stderr);
        return EXIT_SKIPPED;
    }
    if (access(argv[3], X_OK) != 0 || (*argv[2] != '\0' && access(argv[2], R_OK) != 0)) {
        fputs("other users cannot read these files\n", stderr);
        return EXIT_SKIPPED;
    }
    CHECK(setrlimit(RLIMIT_NPROC, &limit));
    if (*argv[2] != '\0')
        setenv("LD_PRELOAD", argv[2], 1);
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
