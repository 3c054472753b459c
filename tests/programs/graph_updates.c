// Instantiates a graph, and has an executable graph updated from another one with the same shape, in a way that a tracer may not
// expect. The argument says which:
//
//   context    another context is current to the thread that updates it
//   thread     more threads call CUDA than the agent has slots for, and the one that updates it has none
//   same       it is updated 1000 times from a graph that runs the same, and then once from another
//
// Prints what its launches must have run. Exits with 99 if the update fails, or if a graph is not what the program made.
// link: -l:libcuda.so.1
#include "graphs.h"

enum { THREADS = 530, STACK = 128 << 10 };

static CUcontext context;
static CUgraphExec executable;
static CUgraph next;
static pthread_barrier_t all_have_called;
static atomic_bool is_over;

static CUgraph two_in_a_row(int one, int other)
{
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_kernel(graph, one, NULL, 0);
    add_kernel(graph, other, &first, 1);
    return graph;
}

static void *update(void *nothing)
{
    CHECK(cuCtxSetCurrent(context));
    CUgraphExecUpdateResultInfo info = {0};
    struct picture before = picture_of(next);
    CHECK(cuGraphExecUpdate_v2(executable, next, &info));
    REQUIRE(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    require_unchanged(next, before);
    return nothing;
}

// Calls CUDA, and stays until the end.
static void *call(void *nothing)
{
    CHECK(cuInit(0));
    pthread_barrier_wait(&all_have_called);
    while (!atomic_load(&is_over))
        pause_us(20000);
    return nothing;
}

static void update_on_one_more_thread(void)
{
    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0);
    REQUIRE(pthread_barrier_init(&all_have_called, NULL, THREADS + 1) == 0);
    pthread_t threads[THREADS], one_more;
    for (int n = 0; n < THREADS; n++)
        REQUIRE(pthread_create(&threads[n], &small, call, NULL) == 0);
    pthread_barrier_wait(&all_have_called);
    CHECK(pthread_create(&one_more, NULL, update, NULL));
    CHECK(pthread_join(one_more, NULL));
    atomic_store(&is_over, true);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(threads[n], NULL));
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    start_graphs();
    CUcontext own = current();
    CUgraph graph = two_in_a_row(0, 1);
    next = two_in_a_row(2, 3);
    executable = instantiated(graph);
    run_graph(executable, 5, (struct shape){.kernels = {1, 1, 0, 0, 0}});
    if (strcmp(argv[1], "context") == 0) {
        CHECK(cuCtxCreate(&context, 0, 0));
        update(NULL);
        CHECK(cuCtxDestroy(context));
        CHECK(cuCtxSetCurrent(own));
    } else if (strcmp(argv[1], "same") == 0) {
        context = own;
        CUgraph other = next;
        next = graph;
        for (int done = 0; done < 1000; done++)
            update(NULL);
        run_graph(executable, 5, (struct shape){.kernels = {1, 1, 0, 0, 0}});
        next = other;
        update(NULL);
    } else {
        context = own;
        update_on_one_more_thread();
    }
    run_graph(executable, 5, (struct shape){.kernels = {0, 0, 1, 1, 0}});
    CHECK(cuGraphExecDestroy(executable));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphDestroy(next));
    print_ran("graph_updates");
    return 0;
}
