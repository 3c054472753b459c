// Launches kernels twice. In between its collector may end, and another one come:
//
//   two_halves FOLDER     makes FOLDER/first when the first half is done, and waits for FOLDER/go
//
// Prints the number of launches of each half.
// link: -l:libcuda.so.1
#include "driver.h"

#include <fcntl.h>

enum { FIRST = 60, SECOND = 120 };

static void launch_often(CUfunction kernel, CUstream stream, int count)
{
    for (int launched = 0; launched < count; launched++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    char done[4096], go[4096];
    snprintf(done, sizeof done, "%s/first", argv[1]);
    snprintf(go, sizeof go, "%s/go", argv[1]);
    start_cuda();
    CUfunction one = load_kernel("one_5us"), two = load_kernel("two_5us");
    CUstream stream = new_stream();
    launch_often(one, stream, 40);
    launch_often(two, stream, 20);
    REQUIRE(close(open(done, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    while (access(go, F_OK) != 0)
        pause_us(1000);
    CUfunction three = load_kernel("three_5us");
    launch_often(one, stream, 70);
    launch_often(two, stream, 30);
    launch_often(three, stream, 20);
    printf("{\"program\":\"two_halves\",\"first\":%d,\"second\":%d}\n", FIRST, SECOND);
    return 0;
}
