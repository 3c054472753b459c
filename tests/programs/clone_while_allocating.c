// Makes children by the clone system call, which runs no fork handlers, while another thread allocates: a child may have a copy
// of malloc's lock that is held, and nobody to release it. Each child makes a call of CUDA, which the driver refuses.
//
//   clone_while_allocating CHILDREN
//
// Prints how many children there were, and how many of them hung.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BYTES = 5000 }; // more than a thread keeps for itself

static volatile int is_over;

static void *allocate(void *unused)
{
    while (!is_over) {
        volatile char *memory = malloc(BYTES);
        REQUIRE(memory != NULL);
        memory[0] = 1;
        free((void *)memory);
    }
    return unused;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int children = atoi(argv[1]), hung = 0;
    REQUIRE(mallopt(M_ARENA_MAX, 1) == 1);
    plain_work();
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, allocate, NULL) == 0);
    for (int n = 0; n < children; n++) {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(10);
            // Where the system cannot wipe memory, a child is recognized after it has lived for some time.
            usleep(3000);
            CUdeviceptr address;
            _exit(cuMemAlloc(&address, 4096) == CUDA_ERROR_NOT_INITIALIZED ? 0 : EXIT_FAILED_CALL);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            hung++;
        else
            REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (hung == 3)
            break; // that is enough to know
    }
    is_over = 1;
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("{\"program\":\"clone_while_allocating\",\"launches\":%d,\"children\":%d,\"hung\":%d}\n", PLAIN_LAUNCHES, children, hung);
    return 0;
}
