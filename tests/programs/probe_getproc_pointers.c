// Requests from cuGetProcAddress everything that CUDA 12.9's and 13.5's runtimes request, and prints one JSON line per
// request: the result and status, whether the pointer is the address of the library's export of that name, and which
// object and exported symbol it belongs to. With the argument "bare" it finds the driver's functions by libc's own
// dlsym, past any hook of it, and so gets the driver's own answers. With "four" it uses the form with four arguments,
// as CUDA 11's runtimes do.
#include "common.h"

#include <dlfcn.h>

static const struct {
    const char *runtime, *name;
    int version;
    uint64_t flags;
    const char *export;
} requests[] = {
#define R(name, version, flags, export) {"12.9", name, version, flags, export},
#include "getproc_12_9.inc"
#undef R
#define R(name, version, flags, export) {"13.5", name, version, flags, export},
#include "getproc_13_5.inc"
#undef R
};

typedef void *(*lookup)(void *handle, const char *name);

// libc's dlsym: at the version of glibc 2.34 and newer, otherwise the first one.
static lookup libc_dlsym(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(libc != NULL);
    void *found = dlvsym(libc, "dlsym", "GLIBC_2.34");
    if (found == NULL)
        found = dlvsym(libc, "dlsym", "GLIBC_2.2.5");
    REQUIRE(found != NULL);
    return (lookup)found;
}

int main(int argc, char **argv)
{
    lookup find = argc > 1 && strcmp(argv[1], "bare") == 0 ? libc_dlsym() : dlsym;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        FAIL("%s", dlerror());
    int (*get)(const char *, void **, int, uint64_t, int *) =
        (int (*)(const char *, void **, int, uint64_t, int *))find(driver, "cuGetProcAddress_v2");
    int (*get_four)(const char *, void **, int, uint64_t) =
        (int (*)(const char *, void **, int, uint64_t))find(driver, "cuGetProcAddress");
    bool four = argc > 1 && strcmp(argv[1], "four") == 0;
    REQUIRE(get != NULL && get_four != NULL);
    for (size_t index = 0; index < sizeof requests / sizeof requests[0]; index++) {
        void *answer = NULL, *export = NULL;
        int status = -1;
        int version = requests[index].version;
        int result = four ? get_four(requests[index].name, &answer, version, requests[index].flags)
                          : get(requests[index].name, &answer, version, requests[index].flags, &status);
        if (requests[index].export != NULL)
            export = find(driver, requests[index].export);
        Dl_info info;
        const char *object = "nothing", *symbol = "";
        if (answer != NULL && dladdr(answer, &info) != 0) {
            const char *slash = strrchr(info.dli_fname, '/');
            object = slash ? slash + 1 : info.dli_fname;
            if (info.dli_saddr == answer)
                symbol = info.dli_sname;
        }
        printf("{\"runtime\":\"%s\",\"name\":\"%s\",\"version\":%d,\"flags\":%d,\"result\":%d,\"status\":%d,\"export\":\"%s\","
               "\"exported\":%s,\"same\":%s,\"object\":\"%s\",\"symbol\":\"%s\"}\n",
               requests[index].runtime, requests[index].name, requests[index].version, (int)requests[index].flags, result,
               status, requests[index].export ? requests[index].export : "", export ? "true" : "false",
               answer != NULL && answer == export ? "true" : "false", object, symbol);
    }
    return 0;
}
