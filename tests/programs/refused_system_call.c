// Starts a program in which a system call is refused, as filters of containers do it:
//
//   refused_system_call NUMBER ERRNO AGENT PROGRAM [ARGUMENT ...]
//
// AGENT is preloaded into the program; an empty one is not. Filters hold for everything that the program starts.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "common.h"

int main(int argc, char **argv)
{
    REQUIRE(argc > 4);
    unsigned number = strtoul(argv[1], NULL, 10), error = strtoul(argv[2], NULL, 10);
    if (argv[3][0] != '\0')
        setenv("LD_PRELOAD", argv[3], 1);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    execv(argv[4], argv + 4);
    perror(argv[4]);
    return 127;
}
