// For LD_PRELOAD behind the agent: does what Nsight Compute's injected library does. It exports cuGetProcAddress_v2, which
// continues to libcuda's, and answers dlopen of libcuda with a handle through which dlsym finds the first function of a name
// in the whole process: this library's, unless the agent is before it.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

typedef void *(*open_library)(const char *path, int flags);
typedef int (*get)(const char *name, void **answer, int version, uint64_t flags, int *status);

static void *next_dlopen(const char *path, int flags)
{
    open_library next = (open_library)dlsym(RTLD_NEXT, "dlopen");
    return next(path, flags);
}

void *dlopen(const char *path, int flags)
{
    void *handle = next_dlopen(path, flags);
    if (handle == NULL || path == NULL || strcmp(path, "libcuda.so.1") != 0)
        return handle;
    return next_dlopen(NULL, RTLD_LAZY);
}

int cuGetProcAddress_v2(const char *name, void **answer, int version, uint64_t flags, int *status)
{
    get real = (get)dlsym(next_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuGetProcAddress_v2");
    return real(name, answer, version, flags, status);
}
