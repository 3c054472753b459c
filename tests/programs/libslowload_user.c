// A library that is on the loader's list but not relocated yet, while the slow library that it needs is being loaded.
// link: -l:libslowload.so -l:libcuda.so.1
#include "driver.h"

int dawdle_work(void *function, void *stream, int launches);

int who(void)
{
    return 6;
}

int deep_work(void *function, void *stream, int launches)
{
    REQUIRE(dawdle_work(function, stream, launches) == 5);
    for (int n = 0; n < launches; n++)
        launch(function, stream);
    return who();
}
