// Launches kernels, and keeps in a file that survives it how many launches and allocations have returned: two 64-bit numbers.
//
//   counted_launches FILE
// link: -l:libcuda.so.1
#include "driver.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { LAUNCHES = 20, EACH = 5 };

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && ftruncate(file, 2 * sizeof(uint64_t)) == 0);
    atomic_ullong *returned = mmap(NULL, 2 * sizeof *returned, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(returned != MAP_FAILED);
    close(file);
    start_cuda();
    CUfunction kernel = load_kernel("counted_2us");
    CUstream stream = new_stream();
    for (int launched = 1; launched <= LAUNCHES; launched++) {
        launch(kernel, stream);
        atomic_fetch_add(&returned[0], 1);
        if (launched % EACH == 0) {
            CUdeviceptr block;
            CHECK(cuMemAlloc(&block, 1 << 20));
            atomic_fetch_add(&returned[1], 1);
            CHECK(cuStreamSynchronize(stream));
        }
    }
    printf("{\"program\":\"counted_launches\",\"launches\":%d}\n", LAUNCHES);
    return 0;
}
