// Loads libraries with RTLD_DEEPBIND that launch kernels: one finds the driver by dlsym, one is linked against it, one
// is linked against a library that wraps the driver, and one takes long to load while another thread looks functions
// up. The second is loaded, used and unloaded several times. Prints the number of launches.
//
//   deepbind [lazy]     lazy: bound at the first use, otherwise when loaded
// link: -l:libcuda.so.1 -rdynamic
#include "driver.h"

#include <dlfcn.h>
#include <link.h>

enum { TIMES = 3 };

int who(void)
{
    return 1;
}

static void *open_deeply(const char *name, int flags)
{
    void *library = dlopen(name, flags | RTLD_DEEPBIND);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    return library;
}

static void in_library(void *library, int expected, const char *kernel, CUstream stream)
{
    int (*work)(void *, void *, int);
    *(void **)&work = dlsym(library, "deep_work");
    REQUIRE(work != NULL);
    REQUIRE(work(load_kernel(kernel), stream, 5) == expected); // the flag has its effect
}

static int is_slow_library(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size, (void)data;
    return strstr(object->dlpi_name, "libslowload.so") != NULL;
}

// Looks a function up while the library is on the loader's list and its symbols are being resolved.
static void *look_up(void *library)
{
    while (dl_iterate_phdr(is_slow_library, NULL) == 0)
        pause_us(1000);
    pause_us(100000);
    REQUIRE(dlsym(library, "deep_work") != NULL);
    return NULL;
}

int main(int count, char **arguments)
{
    int flags = count > 1 && strcmp(arguments[1], "lazy") == 0 ? RTLD_LAZY : RTLD_NOW;
    start_cuda();
    CUstream stream = new_stream();
    void *first = open_deeply("libdeep.so", flags);
    in_library(first, 2, "by_dlsym_5us", stream);
    for (int time = 0; time < TIMES; time++) {
        void *linked = open_deeply("libdeeplinked.so", flags);
        in_library(linked, 3, "linked_5us", stream);
        CHECK(dlclose(linked));
    }
    in_library(open_deeply("libdeepwrapper_user.so", flags), 4, "behind_5us", stream);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look_up, first));
    void *slow = open_deeply("libslowload_user.so", flags);
    CHECK(pthread_join(thread, NULL));
    in_library(slow, 6, "dawdling_5us", stream);
    launch(load_kernel("own_5us"), stream);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"deepbind\",\"pid\":%d,\"launches\":36,\"kernels\":{\"by_dlsym_5us\":5,\"linked_5us\":15,"
           "\"behind_5us\":5,\"dawdling_5us\":10,\"own_5us\":1}}\n",
           (int)getpid());
    return 0;
}
