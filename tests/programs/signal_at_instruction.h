// For programs that launch kernels, and get a signal at every few instructions of the agent's that a launch goes through. The handler
// launches as well, by the driver's API. The tracing process finds the agent's instructions by their addresses; without an agent each
// launch gets its signal right before it.
//
//   PROGRAM STRIDE    signals at the 1st, the 1 + STRIDE-th, ... instruction
//
// Prints how many launches were made, and how many of those by the handler. Exits with 77 where processes cannot be traced.
#pragma once
#include "driver.h"

#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

// The including program's: makes ready, after start_cuda, and launches the kernel main_1us on the stream.
static void prepare(void);
static void launch_main(void);

enum { PLAIN_TURNS = 50, MOST_TURNS = 20000 };

static CUfunction kernel_of_handler;
static CUstream stream, stream_of_handler;
static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    launch(kernel_of_handler, handled % 2 == 0 ? stream : stream_of_handler);
    handled++;
}

// A launch that the tracer follows: it begins at a trap, and the register says whether there is another one after it.
static bool followed_launch(void)
{
    register long goes_on __asm__("r12") = 1;
    __asm__ volatile("int3" : "+r"(goes_on)::"memory");
    launch_main();
    return goes_on != 0;
}

static int work(void)
{
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL));
    start_cuda();
    kernel_of_handler = load_kernel("handler_1us");
    stream = new_stream();
    stream_of_handler = new_stream();
    prepare();
    // What happens once only is over.
    launch_main();
    launch(kernel_of_handler, stream_of_handler);
    CHECK(cuCtxSynchronize());
    long launches = 2;
    while (followed_launch()) {
        if (++launches % 16 == 0)
            CHECK(cuCtxSynchronize());
    }
    launches++;
    CHECK(cuCtxSynchronize());
    REQUIRE(handled > 0);
    printf("{\"program\":\"" PROGRAM "\",\"launches\":%ld,\"handled\":%d}\n", launches + handled, (int)handled);
    return 0;
}

// ---- the tracer ----

static pid_t child;
static struct code {
    const char *file;
    unsigned long begin, end;
} agent = {.file = "libgpuspy.so"}, runtime = {.file = "libcudart.so"};

// Finds a library's code in the child.
static void find(struct code *library)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    FILE *maps = fopen(path, "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        char rights[8];
        if (strstr(line, library->file) && sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[2] == 'x') {
            library->begin = begin;
            library->end = end;
        }
    }
    fclose(maps);
}

static bool is_in(struct code library, unsigned long address)
{
    return address - library.begin < library.end - library.begin;
}

// Whether the tracer follows it one by one: in the runtime, which calls the agent again.
static bool is_followed(unsigned long address)
{
    return is_in(agent, address) || is_in(runtime, address);
}

static struct user_regs_struct registers(void)
{
    struct user_regs_struct all;
    REQUIRE(ptrace(PTRACE_GETREGS, child, NULL, &all) == 0);
    return all;
}

// Lets the child go on until the next stop. Returns its status.
static int until_stop(int request, int signal)
{
    int status;
    REQUIRE(ptrace(request, child, NULL, (void *)(intptr_t)signal) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

static bool is_trap(int status)
{
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

// Runs the child up to an address, with a break in this thread's own debug registers.
static int run_to(unsigned long address)
{
    size_t debug = offsetof(struct user, u_debugreg);
    REQUIRE(ptrace(PTRACE_POKEUSER, child, debug, address) == 0);
    REQUIRE(ptrace(PTRACE_POKEUSER, child, debug + 7 * sizeof(long), 1) == 0);
    int status = until_stop(PTRACE_CONT, 0);
    ptrace(PTRACE_POKEUSER, child, debug + 7 * sizeof(long), 0);
    return status;
}

// Goes `count` of the agent's instructions forward, and over all others. Returns whether the launch has so many.
static bool step(unsigned long count)
{
    struct user_regs_struct at = registers();
    for (unsigned long done = 0; done < count;) {
        bool was_followed = is_followed(at.rip);
        int status = until_stop(PTRACE_SINGLESTEP, 0);
        REQUIRE(is_trap(status));
        at = registers();
        if (was_followed && !is_followed(at.rip)) {
            // A call to elsewhere, or the return from the launch.
            unsigned long back = (unsigned long)ptrace(PTRACE_PEEKDATA, child, at.rsp, NULL);
            if (!is_followed(back))
                return false;
            REQUIRE(is_trap(run_to(back)));
            at = registers();
        }
        done += is_in(agent, at.rip);
    }
    return true;
}

static int trace(unsigned long stride)
{
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    REQUIRE(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL) == 0);
    status = until_stop(PTRACE_CONT, 0);
    REQUIRE(is_trap(status));
    find(&agent);
    find(&runtime);
    unsigned long at = 1;
    for (int turn = 1; is_trap(status); turn++, at += stride) {
        bool goes_on = agent.begin == 0 ? turn < PLAIN_TURNS : step(at) && turn < MOST_TURNS;
        if (!goes_on) {
            struct user_regs_struct all = registers();
            all.r12 = 0;
            // Where a launch has fewer instructions, it is over, and so is its last turn.
            if (agent.begin != 0) {
                status = until_stop(PTRACE_CONT, 0);
                REQUIRE(is_trap(status));
                all = registers();
                all.r12 = 0;
            }
            REQUIRE(ptrace(PTRACE_SETREGS, child, NULL, &all) == 0);
            status = until_stop(PTRACE_CONT, 0);
            break;
        }
        status = until_stop(PTRACE_CONT, SIGUSR1);
    }
    fprintf(stderr, "%lu instructions\n", at);
    while (WIFSTOPPED(status))
        status = until_stop(PTRACE_CONT, WSTOPSIG(status));
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    child = fork();
    REQUIRE(child >= 0);
    if (child != 0)
        return trace(strtoul(argv[1], NULL, 10));
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        return EXIT_SKIPPED;
    raise(SIGSTOP);
    return work();
}
