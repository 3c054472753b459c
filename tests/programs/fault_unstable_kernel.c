// 200 launches of a kernel of 1 ms. The fault: each fifth takes 4 ms.
// link: -l:libcuda.so.1
#include "fault.h"

enum { LAUNCHES = 200, EACH = 5 };

int main(int argc, char **argv)
{
    begin(argc, argv, "first_1us");
    kernel = load_kernel("gather_argns");
    begin_loop();
    for (int n = 0; n < LAUNCHES; n++) {
        uint64_t length = is_faulty && n % EACH == 0 ? 4000000 : 1000000;
        void *arguments[] = {&length};
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL)); // finding: unstable-kernel
    }
    return end_loop();
}
