// Forks while other threads load libraries that are loaded already, which takes no lock of the loader's list, and while the
// agent's thread looks at what is loaded. Each child loads a library of its own, which takes that lock, as a worker of a
// DataLoader does when it imports an extension.
//
//   fork_during_walks CHILDREN
//
// Prints how many children there were, and how many of them hung.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 2 };

static volatile int is_over;

static void *load_again(void *unused)
{
    while (!is_over) {
        void *library = dlopen("libc.so.6", RTLD_LAZY);
        REQUIRE(library != NULL);
        dlclose(library);
    }
    return unused;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int children = atoi(argv[1]), hung = 0;
    plain_work();
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        REQUIRE(pthread_create(&threads[n], NULL, load_again, NULL) == 0);
    for (int n = 0; n < children; n++) {
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(10);
            // No other library of the program needs it.
            _exit(dlopen("libresolv.so.2", RTLD_NOW) != NULL ? 0 : EXIT_FAILED_CALL);
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
    for (int n = 0; n < THREADS; n++)
        REQUIRE(pthread_join(threads[n], NULL) == 0);
    printf("{\"program\":\"fork_during_walks\",\"launches\":%d,\"children\":%d,\"hung\":%d}\n", PLAIN_LAUNCHES, children, hung);
    return 0;
}
