// Launches kernels by a function that the agent does not know, found by cuGetProcAddress, by dlsym and by
// cudaGetDriverEntryPoint. Also looks up functions that the agent knows, one that does not exist, and another
// library's. Prints the launches.
//
//   unknown_function [fork]     a child process looks it up twice more, and launches with what it found
//   unknown_function kill       kills itself a second after all that
// link: -l:libcudart.so.12 -l:libcuda.so.1
#include "driver.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#include "launch_type.h"

static const char name[] = "cuTomorrowLaunchKernel";
static int lookups, launches;

static launch_kernel by_getproc(const char *symbol)
{
    void *found = NULL;
    CHECK(cuGetProcAddress(symbol, &found, 12090, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
    return (launch_kernel)found;
}

static launch_kernel by_entry_point(const char *symbol)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPoint(symbol, &found, cudaEnableDefault, &status));
    return (launch_kernel)found;
}

static launch_kernel by_dlsym(const char *symbol)
{
    static void *driver;
    if (driver == NULL)
        REQUIRE((driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    return (launch_kernel)dlsym(driver, symbol);
}

static void use(launch_kernel (*find)(const char *), int times, CUfunction kernel)
{
    uint64_t nothing = 0;
    void *arguments[] = {&nothing};
    for (int time = 0; time < times; time++) {
        launch_kernel found = find(name);
        REQUIRE(found != NULL);
        lookups++;
        CHECK(found(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
        launches++;
    }
}

int main(int argc, char **argv)
{
    // Before any other call.
    REQUIRE(by_getproc(name) != NULL && by_dlsym(name) != NULL);
    lookups += 2;
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            start_cuda();
            use(by_dlsym, 2, load_kernel("child_5us"));
            CHECK(cuCtxSynchronize());
            exit(0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        lookups += 2;
    }
    start_cuda();
    CUfunction kernel = load_kernel("tomorrow_5us");
    use(by_getproc, 2, kernel);
    use(by_dlsym, 3, kernel);
    CHECK(cudaFree(NULL));
    use(by_entry_point, 4, kernel);
    // In order: functions of the table, one that is not in it, one that does not exist, another library's.
    REQUIRE(by_getproc("cuLaunchKernel") != NULL && by_dlsym("cuLaunchKernel") != NULL);
    REQUIRE(by_getproc("cuMemGetInfo") != NULL && by_dlsym("cuMemGetInfo_v2") != NULL && by_dlsym("cuMemAlloc") != NULL);
    REQUIRE(by_entry_point("cuCtxGetDevice") != NULL);
    void *absent = NULL;
    REQUIRE(cuGetProcAddress("cuNextWeek", &absent, 12090, CU_GET_PROC_ADDRESS_DEFAULT, NULL) != CUDA_SUCCESS);
    REQUIRE(by_dlsym("cuNextWeek") == NULL);
    void *wrapper = dlopen("libdeepwrapper.so", RTLD_NOW);
    REQUIRE(wrapper != NULL && dlsym(wrapper, "cuBetween") != NULL);
    launch(load_kernel("today_5us"), NULL);
    CHECK(cuCtxSynchronize());
    // As late as possible.
    REQUIRE(by_getproc(name) != NULL);
    lookups++;
    printf("{\"program\":\"unknown_function\",\"lookups\":%d,\"by_tomorrow\":%d,\"launches\":1}\n", lookups, launches);
    if (argc > 1 && strcmp(argv[1], "kill") == 0) {
        fflush(stdout);
        pause_us(1000000);
        raise(SIGKILL);
    }
    return 0;
}
