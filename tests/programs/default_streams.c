// Two threads launch kernels on the default stream by each route to the driver: once on the legacy one, which all
// threads share, and once on the thread's own. A kernel's name says to which stream it belongs; the ids of the streams
// are printed as well. `launches` is the count by name.
// link: -l:libcuda.so.1
#include "driver.h"

#include "launch_type.h"

#include <dlfcn.h>

enum { ROUTES = 3, LAUNCHES_A_ROAD = 20, SHARERS = 2 };

int cuLaunchKernel_ptsz(LAUNCH_PARAMETERS); // cuda.h hides it without --default-stream per-thread
#undef cuLaunchKernel
int cuStreamGetId_ptsz(CUstream stream, unsigned long long *id);

static CUfunction legacy_kernel, own_kernels[SHARERS];
static unsigned long long legacy_id, own_ids[SHARERS];
static CUcontext shared;
static launch_kernel legacy_roads[ROUTES], own_roads[ROUTES];

static void launch_all(const launch_kernel routes[ROUTES], CUfunction kernel)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    for (int launched = 0; launched < LAUNCHES_A_ROAD; launched++)
        for (int route = 0; route < ROUTES; route++)
            CHECK(routes[route](kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
}

static void *share(void *index)
{
    intptr_t sharer = (intptr_t)index;
    CHECK(cuCtxSetCurrent(shared));
    CHECK(cuStreamGetId_ptsz(NULL, &own_ids[sharer]));
    launch_all(own_roads, own_kernels[sharer]);
    launch_all(legacy_roads, legacy_kernel);
    CHECK(cuCtxSynchronize());
    return NULL;
}

static launch_kernel by_dlsym(const char *name)
{
    return (launch_kernel)dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

static launch_kernel by_getproc(cuuint64_t flags)
{
    void *answer = NULL;
    CHECK(cuGetProcAddress("cuLaunchKernel", &answer, 12000, flags, NULL));
    return (launch_kernel)answer;
}

int main(void)
{
    start_cuda();
    CHECK(cuCtxGetCurrent(&shared));
    CHECK(cuStreamGetId(NULL, &legacy_id));
    legacy_kernel = load_kernel("legacy_2us");
    own_kernels[0] = load_kernel("first_2us");
    own_kernels[1] = load_kernel("second_2us");
    legacy_roads[0] = (launch_kernel)cuLaunchKernel;
    legacy_roads[1] = by_dlsym("cuLaunchKernel");
    legacy_roads[2] = by_getproc(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    own_roads[0] = cuLaunchKernel_ptsz;
    own_roads[1] = by_dlsym("cuLaunchKernel_ptsz");
    own_roads[2] = by_getproc(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    run_threads(SHARERS, share);
    printf("{\"program\":\"default_streams\",\"launches\":{\"legacy_2us\":%d,\"first_2us\":%d,\"second_2us\":%d},"
           "\"streams\":{\"legacy_2us\":%llu,\"first_2us\":%llu,\"second_2us\":%llu}}\n",
           SHARERS * ROUTES * LAUNCHES_A_ROAD, ROUTES * LAUNCHES_A_ROAD, ROUTES * LAUNCHES_A_ROAD, legacy_id, own_ids[0],
           own_ids[1]);
    return 0;
}
