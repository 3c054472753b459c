// Creates contexts and launches in each of them. The arguments are the number of contexts that are alive at the same time, and
// the number of those that follow them one after another, each destroyed before the next one is created.
// Prints the number of launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { MOST = 100, LAUNCHES = 3 };

static int launched;

// Creates a context, launches in it, and waits for the launches. A thread can have few contexts on its stack, so this one leaves it.
static CUcontext create_and_launch(void)
{
    CUcontext context;
    CHECK(cuCtxCreate(&context, 0, 0));
    CUfunction kernel = load_kernel("short_10us");
    CUstream stream = new_stream();
    for (int n = 0; n < LAUNCHES; n++, launched++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxPopCurrent(&context));
    return context;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    int alive = atoi(argv[1]), others = atoi(argv[2]);
    REQUIRE(alive <= MOST);
    CHECK(cuInit(0));
    CUcontext contexts[MOST];
    for (int n = 0; n < alive; n++)
        contexts[n] = create_and_launch();
    for (int n = 0; n < others; n++)
        CHECK(cuCtxDestroy(create_and_launch()));
    for (int n = 0; n < alive; n++)
        CHECK(cuCtxDestroy(contexts[n]));
    printf("{\"program\":\"many_contexts\",\"launches\":%d}\n", launched);
    return 0;
}
