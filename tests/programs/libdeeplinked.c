// A library that is linked against the driver.
// link: -l:libcuda.so.1
#include "driver.h"

int who(void)
{
    return 3;
}

int deep_work(void *function, void *stream, int launches)
{
    for (int n = 0; n < launches; n++)
        launch(function, stream);
    return who();
}
