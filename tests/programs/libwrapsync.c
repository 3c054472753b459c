// For LD_PRELOAD: replaces cudaDeviceSynchronize, whichever runtime the caller has, and prints at the end how often it
// was called.
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int calls;

int cudaDeviceSynchronize(void)
{
    calls++;
    return 0;
}

__attribute__((destructor)) static void report(void)
{
    if (calls > 0)
        dprintf(STDOUT_FILENO, "wrapsync %d\n", calls);
}
