// Starts two children that use no CUDA, uses CUDA itself, and reaps whatever wait() returns, which must be those two
// only. A tracer that starts a process as the program's child is detected here. Prints the number of reaped children.
// link: -l:libcuda.so.1
#include "driver.h"

#include <sys/wait.h>

enum { CHILDREN = 2, LAUNCHES_PER_TURN = 20, TURNS_AFTER = 40 };

static CUfunction kernel;
static CUstream stream;
static int launches;

static void use_cuda(void)
{
    for (int launched = 0; launched < LAUNCHES_PER_TURN; launched++, launches++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    pause_us(5000);
}

int main(void)
{
    pid_t children[CHILDREN];
    for (int child = 0; child < CHILDREN; child++) {
        children[child] = fork();
        REQUIRE(children[child] >= 0);
        if (children[child] == 0) {
            pause_us(100000 * (unsigned)(child + 1));
            _exit(10 + child);
        }
    }
    start_cuda();
    kernel = load_kernel("parent_10us");
    stream = new_stream();
    int reaped = 0;
    while (reaped < CHILDREN) {
        use_cuda();
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        REQUIRE(pid >= 0);
        if (pid == 0)
            continue;
        if (pid != children[reaped] || !WIFEXITED(status) || WEXITSTATUS(status) != 10 + reaped)
            FAIL("wait() gave process %d with status %#x", (int)pid, status);
        reaped++;
    }
    for (int turn = 0; turn < TURNS_AFTER; turn++) {
        use_cuda();
        REQUIRE(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    }
    // A blocking wait without children to wait for returns at once.
    REQUIRE(wait(NULL) == -1 && errno == ECHILD);
    printf("{\"program\":\"reap_any_child\",\"reaped\":%d,\"launches\":%d}\n", reaped, launches);
    return 0;
}
