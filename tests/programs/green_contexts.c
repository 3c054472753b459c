// Divides a device in two. Each half is a green context in which a thread works at the same time as the other: on a
// stream made for it while the primary context is current, then on streams of the context that it is converted to. Then
// the halves wait for each other as wholes. One half is destroyed before its streams, after which everything is created
// anew. Prints launches and calls.
// link: -l:libcuda.so.1
#include "driver.h"

enum { HALVES = 2, ROUNDS = 3, BURSTS = 20, LAUNCHES = 10, BYTES = 64 << 10 };

static const char *const NAMES[HALVES] = {"left_40us", "right_60us"};
static CUgreenCtx greens[HALVES];
static CUevent marks[HALVES];
static CUcontext primary;
static CUfunction kernels[HALVES];
static pthread_barrier_t both;

static void divide(void)
{
    CUdevResource all, halves[HALVES];
    unsigned count = HALVES;
    CHECK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(halves, &count, &all, NULL, 0, 16));
    REQUIRE(count == HALVES);
    for (int half = 0; half < HALVES; half++) {
        CUdevResourceDesc descriptor;
        CHECK(cuDevResourceGenerateDesc(&descriptor, &halves[half], 1));
        COUNTED("cuGreenCtxCreate", cuGreenCtxCreate(&greens[half], descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    }
}

static void burst(int half, CUstream stream)
{
    for (int launched = 0; launched < LAUNCHES; launched++)
        launch(kernels[half], stream);
    COUNT("cuLaunchKernel", LAUNCHES);
    atomic_fetch_add(count_of(NAMES[half]), LAUNCHES);
}

// Works from outside: the primary context is current.
static void use_stream(int half, CUstream stream)
{
    for (int round = 0; round < BURSTS; round++) {
        burst(half, stream);
        if (round % 4 == 3)
            COUNTED("cuStreamSynchronize", cuStreamSynchronize(stream));
    }
}

// Works from inside: the half is current, and its default stream is the thread's.
static CUstream use_context(int half)
{
    CUcontext context;
    CUstream own;
    CUdeviceptr block;
    static char host[HALVES][BYTES];
    CHECK(cuCtxFromGreenCtx(&context, greens[half]));
    CHECK(cuCtxPushCurrent(context));
    COUNTED("cuStreamCreate", cuStreamCreate(&own, CU_STREAM_DEFAULT));
    COUNTED("cuMemAlloc", cuMemAlloc(&block, BYTES));
    for (int round = 0; round < BURSTS; round++) {
        burst(half, round % 2 == 0 ? NULL : own);
        COUNTED("cuMemcpyHtoD", cuMemcpyHtoD(block, host[half], BYTES));
    }
    COUNTED("cuCtxSynchronize", cuCtxSynchronize());
    COUNTED("cuMemFree", cuMemFree(block));
    CHECK(cuCtxPopCurrent(&context));
    return own;
}

// The right half as a whole waits for the left one, and the left one waits for what comes after that.
static void use_in_turn(int half, CUstream stream)
{
    for (int turn = 0; turn < 2 * HALVES; turn++) {
        if (turn % HALVES == half) {
            burst(half, stream);
            COUNTED("cuGreenCtxRecordEvent", cuGreenCtxRecordEvent(greens[half], marks[half]));
        }
        pthread_barrier_wait(&both);
        if (turn % HALVES != half)
            COUNTED("cuGreenCtxWaitEvent", cuGreenCtxWaitEvent(greens[half], marks[1 - half]));
        pthread_barrier_wait(&both);
    }
    burst(half, stream);
}

static void *use_half(void *index)
{
    int half = (int)(intptr_t)index;
    CUstream stream;
    CHECK(cuCtxSetCurrent(primary));
    COUNTED("cuGreenCtxStreamCreate", cuGreenCtxStreamCreate(&stream, greens[half], CU_STREAM_NON_BLOCKING, 0));
    use_stream(half, stream);
    CUstream inner = use_context(half);
    use_in_turn(half, stream);
    COUNTED("cuStreamSynchronize", cuStreamSynchronize(stream));
    pthread_barrier_wait(&both);
    // The streams outlive it, and can only be destroyed.
    COUNTED("cuGreenCtxDestroy", cuGreenCtxDestroy(greens[half]));
    COUNTED("cuStreamDestroy", cuStreamDestroy(stream));
    COUNTED("cuStreamDestroy", cuStreamDestroy(inner));
    return NULL;
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&primary));
    CHECK(pthread_barrier_init(&both, NULL, HALVES));
    for (int half = 0; half < HALVES; half++) {
        kernels[half] = load_kernel(NAMES[half]);
        CHECK(cuEventCreate(&marks[half], CU_EVENT_DISABLE_TIMING));
    }
    for (int round = 0; round < ROUNDS; round++) {
        divide();
        run_threads(HALVES, use_half);
        // All parts, as a whole.
        COUNTED("cuCtxRecordEvent", cuCtxRecordEvent(primary, marks[0]));
        COUNTED("cuCtxWaitEvent", cuCtxWaitEvent(primary, marks[0]));
        burst(0, NULL);
        COUNTED("cuCtxSynchronize", cuCtxSynchronize());
    }
    CHECK(cuDevicePrimaryCtxRelease(0));
    printf("{\"program\":\"green_contexts\",\"launches\":%ld,", atomic_load(count_of("cuLaunchKernel")));
    print_counts("kernels", "us", "cu");
    printf(",");
    print_counts("apis", "cu", NULL);
    printf("}\n");
    return 0;
}
