// Looks for CUDA's functions where there is no CUDA: by weak references and by dlsym(RTLD_DEFAULT) and its kin. Prints for
// each whether it was found and what calling it returned, and whether that loaded a driver, started a thread, opened a file
// or shared memory.
#include "launch_type.h"
#include "common.h"

#include <dirent.h>
#include <dlfcn.h>

extern int cuLaunchKernel(LAUNCH_PARAMETERS) __attribute__((weak));
extern int cudaMalloc(void **place, size_t bytes) __attribute__((weak));
extern int cudaGetDeviceCount(int *count) __attribute__((weak));

static void print_result(const char *name, bool found, int result)
{
    if (found)
        printf("\"%s\":%d,", name, result);
    else
        printf("\"%s\":null,", name);
}

static int entries(const char *folder)
{
    int count = -2; // . and ..
    DIR *open = opendir(folder);
    REQUIRE(open != NULL);
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

// Counts the mappings of memory that has no name in the file system.
static int memfds(void)
{
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "memfd:") != NULL;
    fclose(maps);
    return count;
}

// Whether a lookup finds nothing, and says so.
static bool is_missing(void *handle, const char *name)
{
    dlerror();
    void *found = dlsym(handle, name);
    const char *error = dlerror();
    return found == NULL && error != NULL && strstr(error, name) != NULL;
}

int main(void)
{
    void *block = NULL;
    int files = entries("/proc/self/fd"), count;
    launch_kernel weak = cuLaunchKernel, found = (launch_kernel)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    printf("{\"program\":\"no_driver\",");
    print_result("weak cuLaunchKernel", weak != NULL, weak ? weak(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) : 0);
    print_result("default cuLaunchKernel", found != NULL, found ? found(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) : 0);
    int (*allocate)(void **, size_t) = cudaMalloc;
    print_result("weak cudaMalloc", allocate != NULL, allocate ? allocate(&block, 16) : 0);
    // A program asks by one function and calls another.
    print_result("weak cudaGetDeviceCount", cudaMalloc != NULL, cudaMalloc ? cudaGetDeviceCount(&count) : 0);
    REQUIRE(block == NULL);
    printf("\"missing by default\":%s,\"missing in the program\":%s,\"missing next\":%s,",
           is_missing(RTLD_DEFAULT, "cuMemAlloc_v2") ? "true" : "false",
           is_missing(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") ? "true" : "false",
           is_missing(RTLD_NEXT, "cudaFree") ? "true" : "false");
    // A library that is loaded later, and is not given back a reference before the next dlopen.
    void *library = dlopen("libundefined.so", RTLD_LAZY);
    if (library == NULL)
        FAIL("%s", dlerror());
    dlopen(NULL, RTLD_NOW);
    int (*devices)(void), (*launch)(void);
    *(void **)&devices = dlsym(library, "devices_if_any");
    *(void **)&launch = dlsym(library, "launch_by_symbol");
    printf("\"devices\":%d,", devices());
    // Without the agent, this call would end the process: nothing can be bound.
    if (getenv("CALL_WHAT_IS_UNDEFINED") != NULL)
        printf("\"undefined cuLaunchKernel\":%d,", launch());
    printf("\"driver_loaded\":%s,\"threads\":%d,\"files_opened\":%d,\"memfds\":%d}\n",
           dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) ? "true" : "false", entries("/proc/self/task"),
           entries("/proc/self/fd") - files, memfds());
    return 0;
}
