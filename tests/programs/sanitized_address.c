// Some work on many streams, compiled with AddressSanitizer, with its check for leaks at the end.
// flags: -fsanitize=address
// link: -l:libcuda.so.1
#include "driver.h"

enum { STREAMS = 40, LAUNCHES = 5 };

int main(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("sanitized_5us");
    CUstream streams[STREAMS];
    for (int stream = 0; stream < STREAMS; stream++) {
        streams[stream] = new_stream();
        for (int launched = 0; launched < LAUNCHES; launched++)
            launch(kernel, streams[stream]);
    }
    CHECK(cuCtxSynchronize());
    for (int stream = 0; stream < STREAMS; stream++)
        CHECK(cuStreamDestroy(streams[stream]));
    printf("{\"program\":\"sanitized_address\",\"launches\":%d}\n", STREAMS * LAUNCHES);
    return 0;
}
