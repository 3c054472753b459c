// One rank of a job that trains together:
//
//   job_of_ranks RANK RANKS SLEEP_US STEPS FILE [exit|abort|hang|other STEP]
//
// In each step the host sleeps for SLEEP_US, and then launches a kernel of 200 us and an all-reduce, which runs until
// those of all ranks do. The ranks meet in FILE, which all of them map. Prints its rank, the number of its collectives, and how
// long its steps took. In a step it may exit with code 3, abort, do nothing any more, or launch another collective than the others.
// link: -l:libcuda.so.1
#include "driver.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { SECONDS = 120, BYTES = 1 << 16 };

static atomic_uint *shared(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && ftruncate(file, BYTES) == 0);
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(memory != MAP_FAILED);
    return memory;
}

// Waits on the host until all ranks are here.
static void gather(atomic_uint *counter, unsigned ranks)
{
    atomic_fetch_add(counter, 1);
    while (atomic_load(counter) < ranks)
        pause_us(100);
}

// Does what a rank does in a step that is its last one.
static void stop(const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "hang") == 0)
        for (;;)
            pause();
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 6 || argc == 8);
    unsigned ranks = (unsigned)atoi(argv[2]);
    int sleep_us = atoi(argv[3]), steps = atoi(argv[4]);
    atomic_uint *counters = shared(argv[5]);
    REQUIRE((steps + 1) * sizeof *counters <= BYTES);
    const char *how = argc == 8 ? argv[6] : "";
    int last = argc == 8 ? atoi(argv[7]) : -1;
    alarm(SECONDS); // ends a program that hangs
    setenv("RANK", argv[1], 1);
    setenv("WORLD_SIZE", argv[2], 1);
    start_cuda();
    CUfunction compute = load_kernel("gemm_200us");
    CUfunction reduce = load_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL_meets");
    CUfunction broadcast = load_kernel("ncclDevKernel_Broadcast_RING_LL_meets");
    CUstream stream = new_stream();
    gather(counters, ranks);
    uint64_t began = now_ns();
    for (int step = 0; step < steps; step++) {
        if (sleep_us > 0)
            pause_us(sleep_us);
        launch(compute, stream);
        if (step == last)
            stop(how);
        bool is_other = step == last && strcmp(how, "other") == 0;
        uint64_t address = (uint64_t)(uintptr_t)&counters[is_other ? 0 : step + 1], all = ranks + 2 * is_other;
        void *arguments[] = {&address, &all};
        CHECK(cuLaunchKernel(is_other ? broadcast : reduce, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    printf("{\"program\":\"job_of_ranks\",\"rank\":%s,\"pid\":%d,\"collectives\":%d,\"loop_ns\":%" PRIu64 "}\n", argv[1],
           (int)getpid(), steps, now_ns() - began);
    return 0;
}
