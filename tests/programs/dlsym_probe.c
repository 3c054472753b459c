// Looks a list of names up by several handles and prints which object each comes from, so that the answers with and
// without a preloaded tracer can be compared.
#include "common.h"

#include <dlfcn.h>

static const char *const names[] = {
    "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc_v2", "cuMemAlloc", "cuGetProcAddress_v2", "cuMemRangeGetAttribute",
    "cudaMalloc", "cudaLaunchKernel", "cudnnCreate", "cuFooBar", "malloc", "dlsym", "no_such_function",
};

static void probe(const char *label, void *handle)
{
    static const char *comma = "";
    printf("%s\"%s\":{", comma, label);
    comma = ",";
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        Dl_info info;
        void *answer = dlsym(handle, names[index]);
        const char *object = "nothing";
        if (answer != NULL && dladdr(answer, &info) != 0) {
            const char *slash = strrchr(info.dli_fname, '/');
            object = slash ? slash + 1 : info.dli_fname;
        }
        printf("%s\"%s\":\"%s\"", index ? "," : "", names[index], object);
    }
    printf("}");
}

static void *open_library(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        FAIL("%s", dlerror());
    return handle;
}

int main(void)
{
    printf("{");
    probe("default", RTLD_DEFAULT);
    probe("next", RTLD_NEXT);
    probe("program", dlopen(NULL, RTLD_NOW));
    probe("libcuda.so.1", open_library("libcuda.so.1"));
    probe("libcudart.so.12", open_library("libcudart.so.12"));
    probe("libcudnnlike.so", open_library("libcudnnlike.so"));
    probe("libc.so.6", open_library("libc.so.6"));
    // Does the same with everything loaded.
    probe("next again", RTLD_NEXT);
    printf("}\n");
    return 0;
}
