// Launches that take little host time each. The fault (of a run with --timing exact): 150,000 kernels so short that what gpuspy
// does for each launch is a good part of the time. The twin: 600 kernels of 4 ms.
// link: -l:libcuda.so.1
#include "fault.h"

int main(int argc, char **argv)
{
    begin(argc, argv, "first_1us");
    kernel = load_kernel(is_faulty ? "tiny_1us" : "large_4ms");
    begin_loop();
    for (int n = 0; n < (is_faulty ? 150000 : 600); n++)
        launch(kernel, stream);
    return end_loop();
}
