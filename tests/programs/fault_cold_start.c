// Loads modules and runs kernels for 200 ms. The fault: it loads 60 modules of which it needs one.
// link: -l:libcuda.so.1
#include "fault.h"

enum { MODULES = 60, LAUNCHES = 100 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    is_faulty = strcmp(argv[1], "faulty") == 0;
    start_cuda();
    stream = new_stream();
    begin_loop();
    for (int n = 0; n < (is_faulty ? MODULES : 1); n++)
        kernel = load_kernel("step_2ms");
    for (int n = 0; n < LAUNCHES; n++)
        launch(kernel, stream);
    return end_loop();
}
