// 1500 launches of a kernel of 50 us. The fault: before each, the program asks for the kernel's occupancy, which takes the
// host longer.
// link: -l:libcuda.so.1
#include "fault.h"

enum { LAUNCHES = 1500, THREADS = 32 };

int main(int argc, char **argv)
{
    int blocks;
    begin(argc, argv, "step_50us");
    begin_loop();
    for (int n = 0; n < LAUNCHES; n++) {
        if (is_faulty || n == 0)
            CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, THREADS, 0));
        launch(kernel, stream);
    }
    return end_loop();
}
