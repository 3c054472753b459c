// Four threads launch on streams of their own until the program kills itself with SIGKILL after 200 ms. A file that
// survives it holds how many launches each thread has made: four 64-bit numbers.
//
//   kill_busy FILE
// link: -l:libcuda.so.1
#include "driver.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

enum { THREADS = 4 };

static CUcontext context;
static CUfunction kernel;
static atomic_ullong *returned;

static void *keep_launching(void *index)
{
    CHECK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (int launched = 1;; launched++) {
        launch(kernel, stream);
        atomic_fetch_add(&returned[(intptr_t)index], 1);
        if (launched % 50 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && ftruncate(file, THREADS * sizeof *returned) == 0);
    returned = mmap(NULL, THREADS * sizeof *returned, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(returned != MAP_FAILED);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("busy_10us");
    pthread_t thread;
    for (intptr_t index = 0; index < THREADS; index++)
        CHECK(pthread_create(&thread, NULL, keep_launching, (void *)index));
    pause_us(200000);
    raise(SIGKILL);
    return EXIT_FAILED_CALL;
}
