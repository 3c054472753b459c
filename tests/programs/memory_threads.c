// Allocates and frees memory in several threads at the same time. The argument says how:
//
//   waiting   eight threads, one after the other: each allocates 256 MiB and frees them while the GPU is busy, which it
//             is until the last thread's free call has begun. If a free waits for the GPU, all blocks exist at once.
//   storm     four threads allocate and free 1 KiB each, as fast as they can.
//   turns     four threads do the same, one after the other.
// link: -l:libcuda.so.1
#include "gate.h"

enum { WAITING = 8, SMALL = 4, ROUNDS = 2000 };

static CUcontext context;
static atomic_int turn;

static void await(int whose)
{
    while (atomic_load(&turn) != whose)
        pause_us(50);
}

static void *take_and_wait(void *index)
{
    int own = (int)(intptr_t)index;
    CUdeviceptr block;
    CHECK(cuCtxSetCurrent(context));
    await(own);
    // The thread before is in its free call by now, or soon.
    pause_us(2000);
    CHECK(cuMemAlloc(&block, 256u << 20));
    atomic_store(&turn, own + 1);
    CHECK(cuMemFree(block));
    return NULL;
}

static void *open_behind_all(void *gate)
{
    await(WAITING);
    pause_us(200000);
    open_gate(*(struct gate *)gate);
    return NULL;
}

static void waiting(void)
{
    struct gate gate = new_gate();
    stand_behind(gate, new_stream());
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, open_behind_all, &gate));
    run_threads(WAITING, take_and_wait);
    CHECK(pthread_join(thread, NULL));
}

static void *storm(void *index)
{
    (void)index;
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr block;
        CHECK(cuMemAlloc(&block, 1024));
        CHECK(cuMemFree(block));
    }
    return NULL;
}

static void *take_in_turn(void *index)
{
    int own = (int)(intptr_t)index;
    CUdeviceptr block;
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < 20; round++) {
        await(2 * SMALL * round + own);
        CHECK(cuMemAlloc(&block, 1024));
        atomic_fetch_add(&turn, 1);
        await(2 * SMALL * round + SMALL + own);
        CHECK(cuMemFree(block));
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    end_if_stuck(60);
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    if (strcmp(argv[1], "waiting") == 0)
        waiting();
    else
        run_threads(SMALL, strcmp(argv[1], "storm") == 0 ? storm : take_in_turn);
    printf("{\"program\":\"memory_threads\"}\n");
    return 0;
}
