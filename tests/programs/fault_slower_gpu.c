// 1000 steps of three kernels; the host reads something in each tenth. The fault: in 200 steps in a row the kernels take half as long
// again, as they do on a GPU that lowers its clocks.
// link: -l:libcuda.so.1
#include "fault.h"

enum { STEPS = 1000, KERNELS = 3, SLOW_FROM = 500, SLOW = 200 };

int main(int argc, char **argv)
{
    static const char *const names[KERNELS] = {"matmul_argns", "norm_argns", "update_argns"};
    static const uint64_t lengths[KERNELS] = {400000, 100000, 300000};
    CUfunction kernels[KERNELS];

    begin(argc, argv, "first_1us");
    for (int part = 0; part < KERNELS; part++)
        kernels[part] = load_kernel(names[part]);
    begin_loop();
    for (int n = 0; n < STEPS; n++) {
        bool is_slow = is_faulty && n >= SLOW_FROM && n < SLOW_FROM + SLOW;
        for (int part = 0; part < KERNELS; part++) {
            uint64_t length = lengths[part] + (is_slow ? lengths[part] / 2 : 0);
            void *arguments[] = {&length};
            CHECK(cuLaunchKernel(kernels[part], 64, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
        }
        if (n % 10 == 9)
            CHECK(cuStreamSynchronize(stream));
    }
    return end_loop();
}
