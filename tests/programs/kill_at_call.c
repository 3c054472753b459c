// Runs a program and kills it (SIGKILL) before one of its system calls; those of all its threads are counted.
//
//   kill_at_call AT LIST AGENT PROGRAM [ARGUMENT ...]
//
// AT is the number of the call, from 1; with 0 nothing is killed. LIST gets the calls that were begun, in order: the thread
// and the call's number. AGENT is preloaded into the program; an empty one is not. In place of a collector
// (GPUSPY_COLLECTOR), its arguments are the collector's, and KILL_AT, KILL_LIST and KILL_PROGRAM are those above.
//
// Ends as the program does.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common.h"

// linux/ptrace.h, which cannot be included beside sys/ptrace.h.
struct call_information {
    uint8_t operation, padding[3];
    uint32_t architecture;
    uint64_t instruction, stack, number, arguments[6];
};
enum { GET_SYSCALL_INFO = 0x420e, ENTERS = 1 };

static void become(const char *agent, char **command)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(EXIT_SKIPPED);
    raise(SIGSTOP);
    if (*agent != '\0')
        setenv("LD_PRELOAD", agent, 1);
    execv(command[0], command);
    perror(command[0]);
    _exit(127);
}

// Handles a stop of one of the program's threads: returns the signal that the thread gets.
static int stopped(pid_t program, pid_t thread, int status, unsigned long at, FILE *list)
{
    static unsigned long calls;
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
        struct call_information call = {0};
        long size = syscall(SYS_ptrace, GET_SYSCALL_INFO, thread, sizeof call, &call);
        if (size > 0 && call.operation == ENTERS) {
            if (++calls == at)
                kill(program, SIGKILL);
            fprintf(list, "%d %" PRIu64 "\n", thread, call.number);
        }
        return 0;
    }
    // Events of tracing, and the stop with which a new thread begins.
    return signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
}

int main(int argc, char **argv)
{
    bool is_collector = argc > 1 && strcmp(argv[1], "collect") == 0;
    REQUIRE(is_collector || argc > 4);
    const char *at_text = is_collector ? getenv("KILL_AT") : argv[1];
    const char *list_path = is_collector ? getenv("KILL_LIST") : argv[2];
    if (is_collector)
        argv[0] = getenv("KILL_PROGRAM");
    unsigned long at = strtoul(at_text, NULL, 10);
    FILE *list = fopen(list_path, "we");
    REQUIRE(list != NULL);
    pid_t program = fork();
    REQUIRE(program >= 0);
    if (program == 0)
        become(is_collector ? "" : argv[3], is_collector ? argv : argv + 4);
    int status;
    REQUIRE(waitpid(program, &status, 0) == program);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    REQUIRE(ptrace(PTRACE_SETOPTIONS, program, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) == 0);
    ptrace(PTRACE_SYSCALL, program, NULL, NULL);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        REQUIRE(thread > 0);
        if (WIFSTOPPED(status)) {
            int signal = stopped(program, thread, status, at, list);
            ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(intptr_t)signal);
        } else if (thread == program) {
            break;
        }
    }
    fclose(list);
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    // As the program has ended.
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return EXIT_FAILED_CALL;
}
