// Creates streams one after another, as a server does that has one for each request: it launches on each, waits for the launch,
// and destroys the stream. Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int streams = atoi(argv[1]);
    start_cuda();
    CUfunction kernel = load_kernel("request_5us");
    for (int n = 0; n < streams; n++) {
        CUstream stream = new_stream();
        launch(kernel, stream);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy(stream));
    }
    printf("{\"program\":\"many_streams\",\"launches\":%d}\n", streams);
    return 0;
}
