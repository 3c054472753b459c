// Creates 500 streams, as the libraries of a framework do, and gives work to one of them. Prints by how many KiB the process's
// resident memory has grown.
// link: -l:libcuda.so.1
#include "driver.h"

enum { STREAMS = 500 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("step_5us");
    launch(kernel, new_stream());
    CHECK(cuCtxSynchronize());
    long before = process_status("VmRSS: %ld");
    CUstream last = NULL;
    for (int n = 0; n < STREAMS; n++)
        last = new_stream();
    launch(kernel, last);
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"idle_streams\",\"grown_kib\":%ld}\n", process_status("VmRSS: %ld") - before);
    return 0;
}
