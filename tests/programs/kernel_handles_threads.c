// Obtains handles in a thread whose records have no room: more threads live at once than the agent has slots for.
// Another thread, which has a slot, launches them. Prints the launches.
// link: -l:libcuda.so.1
#include "driver.h"

enum { THREADS = 640, TURNS = 5 };

static CUcontext context;
static pthread_barrier_t all_called, done;
static CUkernel kernel;
static CUfunction function;
static const char *const names[] = {"kernel_2us", "function_2us"};

static void *hold_a_slot(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuCtxSynchronize());
    pthread_barrier_wait(&all_called);
    pthread_barrier_wait(&done);
    return nothing;
}

static void *load(void *nothing)
{
    CUlibrary library;
    CUmodule module;
    char *of_library = ptx_module(&names[0], 1), *of_module = ptx_module(&names[1], 1);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuLibraryLoadData(&library, of_library, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, names[0]));
    CHECK(cuModuleLoadData(&module, of_module));
    CHECK(cuModuleEnumerateFunctions(&function, 1, module));
    free(of_library);
    free(of_module);
    return nothing;
}

int main(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    pthread_t loader;
    start_cuda();
    CHECK(cuCtxGetCurrent(&context));
    CUstream stream = new_stream();
    CHECK(pthread_attr_init(&small));
    CHECK(pthread_attr_setstacksize(&small, 256 << 10));
    CHECK(pthread_barrier_init(&all_called, NULL, THREADS + 1));
    CHECK(pthread_barrier_init(&done, NULL, THREADS + 1));
    for (int index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], &small, hold_a_slot, NULL));
    pthread_barrier_wait(&all_called);
    CHECK(pthread_create(&loader, NULL, load, NULL));
    CHECK(pthread_join(loader, NULL));
    for (int turn = 0; turn < TURNS; turn++) {
        launch(function, stream);
        launch((CUfunction)kernel, stream);
    }
    CHECK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&done);
    for (int index = 0; index < THREADS; index++)
        CHECK(pthread_join(threads[index], NULL));
    printf("{\"program\":\"kernel_handles_threads\",\"launches\":%d,\"by_kernel_handle\":%d,\"kernels\":{\"kernel_2us\":%d,"
           "\"function_2us\":%d}}\n", 2 * TURNS, TURNS, TURNS, TURNS);
    return 0;
}
