// Has many children, some at a time, of which every few call CUDA. All end with codes of their own.
//
//   children NUMBER EVERY    the 1st, the 1 + EVERY-th, ... child calls CUDA
//
// Prints how many children there were, how many of them called CUDA, and how many kernels those launched.
// link: -l:libcuda.so.1
#include "driver.h"

#include <sys/wait.h>

enum { AT_A_TIME = 20, EACH = 3 };

static int child(int number, int every)
{
    if (number % every == 0) {
        start_cuda();
        CUfunction kernel = load_kernel("child_1us");
        CUstream stream = new_stream();
        for (int launched = 0; launched < EACH; launched++)
            launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
    }
    return number % 100;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    int number = atoi(argv[1]), every = atoi(argv[2]), alive = 0, codes = 0, expected = 0;
    REQUIRE(number > 0 && every > 0);
    for (int n = 0; n < number || alive > 0;) {
        if (n < number && alive < AT_A_TIME) {
            pid_t pid = fork();
            REQUIRE(pid >= 0);
            if (pid == 0)
                exit(child(n, every));
            expected += n % 100;
            n++;
            alive++;
        } else {
            int status;
            REQUIRE(wait(&status) > 0 && WIFEXITED(status));
            codes += WEXITSTATUS(status);
            alive--;
        }
    }
    REQUIRE(codes == expected);
    REQUIRE(wait(NULL) < 0 && errno == ECHILD);
    int with_cuda = (number + every - 1) / every;
    printf("{\"program\":\"children\",\"children\":%d,\"with_cuda\":%d,\"launches\":%d}\n", number, with_cuda, with_cuda * EACH);
    return 0;
}
