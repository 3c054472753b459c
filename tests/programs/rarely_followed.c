// Launches kernels that were followed by a programmatic launch, or are from time to time:
//
//   rarely_followed once        one that was followed five times, and then never
//   rarely_followed unloaded    the same, but its module is unloaded, and its handle may mean another kernel
//   rarely_followed rounds      one that is followed in each round, after more launches that are not
//
// Prints the number of launches that are not followed.
// link: -l:libcuda.so.1
#include "driver.h"

enum { PLAIN = 400, ROUNDS = 64 };

static CUfunction load_into(CUmodule *module, const char *name)
{
    CUfunction function;
    char *ptx = ptx_module(&name, 1);
    CHECK(cuModuleLoadData(module, ptx));
    CHECK(cuModuleGetFunction(&function, *module, name));
    free(ptx);
    return function;
}

static void launch_alone(CUfunction kernel, CUstream stream, int count)
{
    for (int done = 1; done <= count; done++) {
        launch(kernel, stream);
        if (done % 4 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
}

static void launch_followed(CUfunction kernel, CUfunction behind, CUstream stream)
{
    launch(kernel, stream);
    launch_behind(behind, stream);
    CHECK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    start_cuda();
    CUmodule module;
    CUfunction kernel = load_into(&module, "first_10us"), behind = load_kernel("behind_10us");
    CUstream stream = new_stream();
    int alone = PLAIN;
    if (strcmp(argv[1], "rounds") == 0) {
        for (int round = alone = 0; round < ROUNDS; alone += round++) {
            launch_followed(kernel, behind, stream);
            launch_alone(kernel, stream, round);
        }
    } else {
        for (int round = 0; round < 5; round++)
            launch_followed(kernel, behind, stream);
        if (strcmp(argv[1], "unloaded") == 0) {
            CHECK(cuModuleUnload(module));
            kernel = load_kernel("other_10us");
        }
        launch_alone(kernel, stream, PLAIN);
    }
    printf("{\"program\":\"rarely_followed\",\"alone\":%d}\n", alone);
    return 0;
}
