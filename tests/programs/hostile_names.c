// Launches kernels, and opens NVTX ranges, whose names would do harm if they were taken for markup, or moved a terminal's cursor:
// one that ends a script, one that turns the rest of its line around, and one of a megabyte. Before each launch in the range of a
// megabyte the GPU waits for the host, so that a finding has that name in its sentence. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

#include <nvtx3/nvToolsExt.h>

int main(void)
{
    static char megabyte[(1 << 20) + 32];
    memset(megabyte, 'x', 1 << 20);
    strcpy(megabyte + (1 << 20), "_5us");
    const char *const names[] = {
        "</script><script>window.harmed=1</script><img/src=x/onerror=window.harmed=2>_20us",
        "turned\xe2\x80\xae_around<b>&amp_10us",
        megabyte,
    };
    int launches = 0;
    start_cuda();
    CUstream stream = new_stream();
    for (int name = 0; name < 3; name++) {
        CUfunction kernel = load_kernel(names[name]);
        for (int n = 0; n < 20; n++, launches++) {
            nvtxRangePushA(names[name]);
            if (name == 2) {
                CHECK(cuStreamSynchronize(stream));
                usleep(5000);
            }
            launch(kernel, stream);
            nvtxRangePop();
        }
    }
    CHECK(cuStreamSynchronize(stream));
    printf("%d\n", launches);
    return 0;
}
