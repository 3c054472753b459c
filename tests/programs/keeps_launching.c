// Launches kernels until it is killed, or with pauses for so many milliseconds; then prints their number.
//
//   keeps_launching [MILLISECONDS]
// link: -l:libcuda.so.1
#include "driver.h"

int main(int argc, char **argv)
{
    uint64_t most_ns = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000 : UINT64_MAX, began = now_ns();
    long launches = 0;
    start_cuda();
    CUfunction kernel = load_kernel("kept_5us");
    CUstream stream = new_stream();
    while (now_ns() - began < most_ns) {
        for (int launched = 0; launched < 50; launched++)
            launch(kernel, stream);
        launches += 50;
        CHECK(cuStreamSynchronize(stream));
        if (argc > 1)
            pause_us(500);
    }
    printf("{\"program\":\"keeps_launching\",\"launches\":%ld}\n", launches);
    return 0;
}
