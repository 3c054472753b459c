// Combines fork with CUDA:
//
//   fork_child before     forks first, then parent and child each use CUDA
//   fork_child after      uses CUDA, then forks: the driver refuses calls of the child (CUDA_ERROR_NOT_INITIALIZED),
//                         which only exits; a second child executes another program; the parent goes on
//   fork_child cloned     the same, but the first child is made by the clone system call, which runs no fork handlers
//
// With a second argument "refused", no memory of this process can be marked to be wiped in a child, as under gVisor.
//
// Each process that used CUDA prints a line of its own.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Makes madvise(_, _, MADV_WIPEONFORK) fail with EINVAL from here on. */
static void refuse_wiping(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) != 0 && errno == EINVAL);
}

static void report(const char *who)
{
    printf("{\"program\":\"fork_child\",\"who\":\"%s\",\"pid\":%d,\"launches\":%d}\n", who, (int)getpid(), PLAIN_LAUNCHES);
    REQUIRE(fflush(stdout) == 0);
}

static void wait_for(pid_t child)
{
    int status;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_before(void)
{
    pid_t child = fork();
    plain_work();
    report(child == 0 ? "child" : "parent");
    if (child != 0)
        wait_for(child);
}

static void fork_after(int by_system_call)
{
    plain_work();
    pid_t child = by_system_call ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (child == 0) {
        // Fork handlers have marked this child already; the cloned one is recognized only after it has lived for some
        // time.
        if (by_system_call)
            usleep(20000);
        CUdeviceptr address;
        REQUIRE(cuMemAlloc(&address, 4096) == CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    wait_for(child);
    // Long enough for a collector to read anything that the child might have written into the parent's memory.
    usleep(200000);
    child = fork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(EXIT_FAILED_CALL);
    }
    wait_for(child);
    // The parent's CUDA still works as before.
    CHECK(cuCtxSynchronize());
    report("parent");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "refused") == 0)
        refuse_wiping();
    if (argc >= 2 && strcmp(argv[1], "before") == 0)
        fork_before();
    else if (argc >= 2 && strcmp(argv[1], "after") == 0)
        fork_after(0);
    else if (argc >= 2 && strcmp(argv[1], "cloned") == 0)
        fork_after(1);
    else
        FAIL("usage: fork_child before|after|cloned [refused]");
    return 0;
}
