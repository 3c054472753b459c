// A library that is linked against the driver and against a library that wraps it, whose launch function it must get.
// link: -l:libdeepwrapper.so -l:libcuda.so.1
#include "driver.h"

int between_calls(void);

int who(void)
{
    return 4;
}

int deep_work(void *function, void *stream, int launches)
{
    for (int n = 0; n < launches; n++)
        launch(function, stream);
    REQUIRE(between_calls() == launches);
    return who();
}
