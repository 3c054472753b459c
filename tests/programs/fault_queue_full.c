// Launches of a kernel of 100 us: 5000, far more than a stream takes, or (fixed) as many as it takes at once.
// link: -l:libcuda.so.1
#include "fault.h"

enum { MANY = 5000, FEW = 900 };

int main(int argc, char **argv)
{
    begin(argc, argv, "step_100us");
    begin_loop();
    for (int n = 0; n < (is_faulty ? MANY : FEW); n++)
        launch(kernel, stream);
    return end_loop();
}
