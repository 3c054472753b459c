// For LD_PRELOAD, before everything else: writes each request that a program, or a runtime in it, makes of
// cuGetProcAddress and the answer to it as JSON lines into the file named by WATCHGETPROC_FILE. A lookup of
// cuGetProcAddress in a library, or through cuGetProcAddress itself, returns this library's function, which forwards to
// the real one.
#include "hook_dlsym.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// cuGetProcAddress with four arguments (before CUDA 12) and with five.
typedef int (*get_four)(const char *name, void **answer, int version, uint64_t flags);
typedef int (*get_five)(const char *name, void **answer, int version, uint64_t flags, int *status);

static _Atomic(get_four) real_four;
static _Atomic(get_five) real_five;

static int watched_four(const char *name, void **answer, int version, uint64_t flags);
static int watched_five(const char *name, void **answer, int version, uint64_t flags, int *status);

// Returns our function in place of `real`, a cuGetProcAddress.
static void *watch(void *real, int is_five)
{
    if (is_five)
        real_five = (get_five)real;
    else
        real_four = (get_four)real;
    return is_five ? (void *)watched_five : (void *)watched_four;
}

static void write_down(const char *name, void **answer, int version, uint64_t flags, int result, int *status)
{
    static atomic_int file = -1;
    const char *path = getenv("WATCHGETPROC_FILE"), *object = "nothing", *symbol = "";
    Dl_info info;
    if (path == NULL)
        return;
    if (file < 0)
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    void *pointer = answer != NULL && result == 0 ? *answer : NULL;
    if (pointer != NULL && dladdr(pointer, &info) != 0) {
        const char *slash = strrchr(info.dli_fname, '/');
        object = slash != NULL ? slash + 1 : info.dli_fname;
        if (info.dli_sname != NULL && info.dli_saddr == pointer)
            symbol = info.dli_sname;
    }
    char status_text[16] = "null";
    if (status != NULL)
        snprintf(status_text, sizeof status_text, "%d", *status);
    dprintf(file,
            "{\"name\":\"%s\",\"version\":%d,\"flags\":%d,\"result\":%d,\"status\":%s,\"object\":\"%s\",\"symbol\":\"%s\"}\n",
            name, version, (int)flags, result, status_text, object, symbol);
}

static void watch_answer(const char *name, void **answer, int version, int result)
{
    if (result == 0 && answer != NULL && *answer != NULL && strcmp(name, "cuGetProcAddress") == 0)
        *answer = watch(*answer, version >= 12000);
}

static int watched_four(const char *name, void **answer, int version, uint64_t flags)
{
    int result = real_four(name, answer, version, flags);
    write_down(name, answer, version, flags, result, NULL);
    watch_answer(name, answer, version, result);
    return result;
}

static int watched_five(const char *name, void **answer, int version, uint64_t flags, int *status)
{
    int result = real_five(name, answer, version, flags, status);
    write_down(name, answer, version, flags, result, status);
    watch_answer(name, answer, version, result);
    return result;
}

// The next dlsym in search order: another hook's, or libc's.
lookup hook_next(void)
{
    static _Atomic(lookup) next;
    if (next == NULL)
        next = (lookup)libc_dlsym()(RTLD_NEXT, "dlsym");
    return next;
}

void *hook_answer(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
        return NULL;
    int is_five = strcmp(name, "cuGetProcAddress_v2") == 0;
    if (!is_five && strcmp(name, "cuGetProcAddress") != 0)
        return NULL;
    void *real = hook_next()(handle, name);
    return real != NULL ? watch(real, is_five) : NULL;
}
