// Runs a job of three processes. The program starts two more of its kind by fork and exec, as ranks 1 and 2, and all
// three work at the same time. Rank 1 then kills itself with SIGKILL, and rank 2 crashes with SIGSEGV. The first
// process sets its own rank to 0 by setenv, waits until both have ended, and exits.
//
// Rank r launches 100 * (r + 1) kernels. Each process prints a line of its own.
// link: -l:libcuda.so.1
#include "driver.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void work(int rank)
{
    start_cuda();
    CUfunction kernel = load_kernel("family_10us");
    CUstream stream = new_stream();
    int launches = 100 * (rank + 1);
    for (int launched = 0; launched < launches; launched++) {
        launch(kernel, stream);
        if (launched % 20 == 19)
            CHECK(cuStreamSynchronize(stream));
    }
    printf("{\"program\":\"job_of_three\",\"rank\":%d,\"pid\":%d,\"launches\":%d}\n", rank, (int)getpid(), launches);
    REQUIRE(fflush(stdout) == 0);
}

static void end_badly(int rank)
{
    if (rank == 1)
        raise(SIGKILL);
    struct rlimit no_core = {0, 0};
    REQUIRE(setrlimit(RLIMIT_CORE, &no_core) == 0);
    volatile char *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *forbidden = 1;
}

static pid_t start(const char *rank)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("RANK", rank, 1);
        setenv("LOCAL_RANK", rank, 1);
        execl("/proc/self/exe", "job_of_three", rank, (char *)NULL);
        _exit(EXIT_FAILED_CALL);
    }
    REQUIRE(child > 0);
    return child;
}

int main(int argc, char **argv)
{
    setenv("WORLD_SIZE", "3", 1);
    if (argc == 2) {
        int rank = atoi(argv[1]);
        work(rank);
        end_badly(rank);
        return EXIT_FAILED_CALL;
    }
    // The higher rank has the lower pid.
    pid_t crashed = start("2");
    pid_t killed = start("1");
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    work(0);
    // Not reaped at once, as with many launchers: until then other processes can still read their exit status from the
    // Linux kernel.
    siginfo_t info;
    REQUIRE(waitid(P_PID, killed, &info, WEXITED | WNOWAIT) == 0 && waitid(P_PID, crashed, &info, WEXITED | WNOWAIT) == 0);
    pause_us(300000);
    int status;
    REQUIRE(waitpid(killed, &status, 0) == killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    REQUIRE(waitpid(crashed, &status, 0) == crashed && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return 0;
}
