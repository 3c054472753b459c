// A program that looks for CUDA's functions where there is no CUDA: by a weak reference and by dlsym(RTLD_DEFAULT). Prints
// for each whether it was there and what calling it returned, and whether a driver was loaded or a thread started by that.
#include "call.h"
#include "common.h"

#include <dirent.h>
#include <dlfcn.h>

extern int cuLaunchKernel(LAUNCH_PARAMETERS) __attribute__((weak));
extern int cudaMalloc(void **place, size_t bytes) __attribute__((weak));

static void print_result(const char *name, bool found, int result)
{
    if (found)
        printf("\"%s\":%d,", name, result);
    else
        printf("\"%s\":null,", name);
}

static int threads(void)
{
    int count = -2; // . and ..
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count;
}

int main(void)
{
    void *block = NULL;
    launch_kernel weak = cuLaunchKernel, found = (launch_kernel)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    printf("{\"program\":\"no_driver\",");
    print_result("weak cuLaunchKernel", weak != NULL, weak ? weak(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) : 0);
    print_result("default cuLaunchKernel", found != NULL, found ? found(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) : 0);
    int (*allocate)(void **, size_t) = cudaMalloc;
    print_result("weak cudaMalloc", allocate != NULL, allocate ? allocate(&block, 16) : 0);
    REQUIRE(block == NULL);
    printf("\"driver_loaded\":%s,\"threads\":%d}\n", dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) ? "true" : "false",
           threads());
    return 0;
}
