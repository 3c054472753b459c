// Forking and CUDA.
//
//   fork_child before     forks first, then parent and child each use CUDA
//   fork_child after      uses CUDA, then forks: the driver refuses the child (CUDA_ERROR_NOT_INITIALIZED), which only
//                         exits; a second child executes another program; the parent goes on
//
// Each process that used CUDA prints a line of its own.
// link: -l:libcuda.so.1
#include "plain.h"

#include <sys/wait.h>

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

static void fork_after(void)
{
    plain_work();
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr block;
        REQUIRE(cuMemAlloc(&block, 4096) == CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    wait_for(child);
    child = fork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(EXIT_FAILED_CALL);
    }
    wait_for(child);
    // The parent's CUDA is as it was.
    CHECK(cuCtxSynchronize());
    report("parent");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "before") == 0)
        fork_before();
    else if (argc == 2 && strcmp(argv[1], "after") == 0)
        fork_after();
    else
        FAIL("usage: fork_child before|after");
    return 0;
}
