/*
 * Preloaded: counts which driver functions a CUDA runtime calls.
 *
 * Every pointer into libcuda that is handed out by dlsym or by cuGetProcAddress is exchanged for a thunk that counts and
 * jumps: arguments, results and the driver itself are untouched, and so are its export tables.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if !defined(__x86_64__)
#error "the thunks are written for x86-64"
#endif

#define THUNKS 2048
#define STRING_(x) #x
#define STRING(x) STRING_(x)

__attribute__((visibility("hidden"))) uint64_t thunk_counts[THUNKS];
__attribute__((visibility("hidden"))) void *thunk_targets[THUNKS];
extern char thunks[] __attribute__((visibility("hidden")));

__asm__(".text\n.balign 32\n.hidden thunks\n.globl thunks\nthunks:\n"
        ".set thunk, 0\n"
        ".rept " STRING(THUNKS) "\n"
        ".balign 32\n"
        "endbr64\n"
        "lock incq thunk_counts + 8 * thunk(%rip)\n"
        "jmp *thunk_targets + 8 * thunk(%rip)\n"
        ".set thunk, thunk + 1\n"
        ".endr\n");

static struct {
    char name[80];
    uint64_t printed;
} known[THUNKS];
static int used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the thunk of a driver function, or the function itself if there are no thunks left. */
static void *thunk_of(void *target, const char *name)
{
    void *thunk = target;
    pthread_mutex_lock(&lock);
    int n = 0;
    while (n < used && thunk_targets[n] != target)
        n++;
    if (n < THUNKS) {
        if (n == used) {
            snprintf(known[n].name, sizeof known[n].name, "%s", name);
            thunk_targets[n] = target;
            used++;
        }
        thunk = thunks + 32 * n;
    }
    pthread_mutex_unlock(&lock);
    return thunk;
}

typedef int (*getproc4)(const char *, void **, int, uint64_t);
typedef int (*getproc5)(const char *, void **, int, uint64_t, int *);
static getproc4 real_getproc4;
static getproc5 real_getproc5;

static int wrapped_getproc4(const char *name, void **function, int version, uint64_t flags);
static int wrapped_getproc5(const char *name, void **function, int version, uint64_t flags, int *status);

/* Returns whether a pointer is already one of our thunks: a driver may look its own functions up by dlsym. */
static int is_exchanged(void *function)
{
    return function == (void *)wrapped_getproc4 || function == (void *)wrapped_getproc5 ||
           ((char *)function >= thunks && (char *)function < thunks + 32 * THUNKS);
}

static void exchange(const char *name, int version, void **function)
{
    if (is_exchanged(*function))
        return;
    if (strcmp(name, "cuGetProcAddress") == 0) {
        if (version < 12000) {
            real_getproc4 = (getproc4)*function;
            *function = (void *)wrapped_getproc4;
        } else {
            real_getproc5 = (getproc5)*function;
            *function = (void *)wrapped_getproc5;
        }
        return;
    }
    /* The name of the export that it points to, if there is one: it distinguishes _v2 and _ptsz. */
    Dl_info info;
    const char *export = name;
    if (dladdr(*function, &info) && info.dli_sname && info.dli_saddr == *function)
        export = info.dli_sname;
    if (strcmp(export, "cuGetExportTable") != 0)
        *function = thunk_of(*function, export);
}

static int wrapped_getproc4(const char *name, void **function, int version, uint64_t flags)
{
    int result = real_getproc4(name, function, version, flags);
    if (result == 0 && function && *function)
        exchange(name, version, function);
    return result;
}

static int wrapped_getproc5(const char *name, void **function, int version, uint64_t flags, int *status)
{
    int result = real_getproc5(name, function, version, flags, status);
    if (result == 0 && function && *function)
        exchange(name, version, function);
    return result;
}

typedef void *(*dlsym_function)(void *, const char *);

static dlsym_function real_dlsym(void)
{
    static dlsym_function found;
    if (!found)
        found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!found)
        found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return found;
}

void *dlsym(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
        return real_dlsym()(handle, name);
    void *function = real_dlsym()(handle, name);
    Dl_info info;
    if (!function || !dladdr(function, &info) || !info.dli_fname || !strstr(info.dli_fname, "libcuda.so"))
        return function;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        exchange("cuGetProcAddress", 12000, &function);
    else
        exchange(name, 11030, &function);
    return function;
}

/* For the client: prints one line of JSON with the calls since the last marker. */
void probe_mark(const char *label, int result)
{
    printf("{\"call\": \"%s\", \"result\": %d, \"driver\": {", label, result);
    const char *comma = "";
    for (int n = 0; n < used; n++) {
        uint64_t count = __atomic_load_n(&thunk_counts[n], __ATOMIC_RELAXED);
        if (count != known[n].printed)
            printf("%s\"%s\": %llu", comma, known[n].name, (unsigned long long)(count - known[n].printed)), comma = ", ";
        known[n].printed = count;
    }
    printf("}}\n");
    fflush(stdout);
}
