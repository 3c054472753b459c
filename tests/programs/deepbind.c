// Two libraries loaded with RTLD_DEEPBIND launch kernels: one finds the driver by dlsym, one is linked against it.
//
//   deepbind [lazy]     bound at the first use, else when loaded
// link: -l:libcuda.so.1 -rdynamic
#include "driver.h"

#include <dlfcn.h>

int who(void)
{
    return 1;
}

static void in_library(const char *name, int flags, int expected, const char *kernel, CUstream stream)
{
    void *library = dlopen(name, flags | RTLD_DEEPBIND);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    int (*work)(void *, void *, int);
    *(void **)&work = dlsym(library, "deep_work");
    REQUIRE(work != NULL);
    REQUIRE(work(load_kernel(kernel), stream, 5) == expected); // the flag means what it means
}

int main(int count, char **arguments)
{
    int flags = count > 1 && strcmp(arguments[1], "lazy") == 0 ? RTLD_LAZY : RTLD_NOW;
    start_cuda();
    CUstream stream = new_stream();
    in_library("libdeep.so", flags, 2, "by_dlsym_5us", stream);
    in_library("libdeeplinked.so", flags, 3, "linked_5us", stream);
    launch(load_kernel("own_5us"), stream);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"deepbind\",\"pid\":%d,\"launches\":11,\"kernels\":{\"by_dlsym_5us\":5,\"linked_5us\":5,\"own_5us\":1}}\n",
           (int)getpid());
    return 0;
}
