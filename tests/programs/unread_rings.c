// Threads that launch more than their rings hold, when nobody reads those any more:
//
//   unread_rings FOLDER KIB     makes FOLDER/first when each thread has launched a little, and waits for FOLDER/go; when all is
//                               launched, waits until the process has less shared memory than KIB
//
// Prints how much shared memory it has when all is launched, and how much at last: KiB.
// link: -l:libcuda.so.1
#include "driver.h"

#include <fcntl.h>

enum { THREADS = 8, LITTLE = 5, MUCH = 40000 };

static CUcontext context;
static CUfunction kernel;
static atomic_int begun, is_time;

static void *launch_much(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (int launched = 0; launched < LITTLE; launched++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&is_time))
        pause_us(1000);
    for (int launched = 0; launched < MUCH; launched++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    return nothing;
}

static long shared_kib(void)
{
    return process_status("RssShmem: %ld kB");
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    long enough = atol(argv[2]);
    char done[4096], go[4096];
    snprintf(done, sizeof done, "%s/first", argv[1]);
    snprintf(go, sizeof go, "%s/go", argv[1]);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("unread_1us");
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, launch_much, NULL));
    while (atomic_load(&begun) < THREADS)
        pause_us(1000);
    REQUIRE(close(open(done, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    while (access(go, F_OK) != 0)
        pause_us(1000);
    atomic_store(&is_time, 1);
    for (int index = 0; index < THREADS; index++)
        CHECK(pthread_join(threads[index], NULL));
    long most = shared_kib(), least = most;
    // A minute, if need be, for whoever gives it back.
    for (int waited = 0; waited < 6000 && least >= enough; waited++) {
        pause_us(10000);
        least = shared_kib();
    }
    printf("{\"program\":\"unread_rings\",\"threads\":%d,\"most_kib\":%ld,\"least_kib\":%ld}\n", THREADS, most, least);
    return 0;
}
