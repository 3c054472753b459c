// Creates 500 streams, as the libraries of a framework do, and gives work to one of them. Prints by how many KiB the process's
// resident memory has grown.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STREAMS = 500 };

static long resident_kib(void)
{
    long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    REQUIRE(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(status);
    return kib;
}

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("step_5us");
    launch(kernel, new_stream());
    CHECK(cuCtxSynchronize());
    long before = resident_kib();
    CUstream last = NULL;
    for (int n = 0; n < STREAMS; n++)
        last = new_stream();
    launch(kernel, last);
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"idle_streams\",\"grown_kib\":%ld}\n", resident_kib() - before);
    return 0;
}
