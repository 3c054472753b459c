// Makes calls fail that libgpuspy.so makes to the C library, to show what that does to the program. Preloaded, with
//
//   FAIL_CALL   the function; "malloc" stands for all that allocate
//   FAIL_AT     which of its calls fails, from 1; 0 or absent: none
//   FAIL_AFTER  1: all after that call fail, too
//   FAIL_COUNT  a file that gets each function with the number of the agent's calls, when the process ends
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "common.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *place, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static uintptr_t agent_begin, agent_end;
static const char *fail_call;
static unsigned long fail_at;
static bool fail_after;

enum { MOST = 64 };
static struct {
    _Atomic(const char *) name;
    atomic_ulong calls;
} functions[MOST];

static int find_agent(struct dl_phdr_info *object, size_t bytes, void *data)
{
    (void)bytes, (void)data;
    if (strstr(object->dlpi_name, "libgpuspy.so") == NULL)
        return 0;
    for (int n = 0; n < object->dlpi_phnum; n++) {
        uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[n].p_vaddr, end = begin + object->dlpi_phdr[n].p_memsz;
        if (object->dlpi_phdr[n].p_type == PT_LOAD && (object->dlpi_phdr[n].p_flags & PF_X) != 0) {
            agent_begin = begin;
            agent_end = end;
        }
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_AT"), *after = getenv("FAIL_AFTER");
    fail_call = getenv("FAIL_CALL");
    fail_at = at ? strtoul(at, NULL, 10) : 0;
    fail_after = after != NULL && *after == '1';
    dl_iterate_phdr(find_agent, NULL);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    for (int n = 0; n < MOST && functions[n].name != NULL; n++)
        fprintf(file, "%s %lu\n", functions[n].name, functions[n].calls);
    fclose(file);
}

// Counts a call, and says whether it fails.
static bool fails(const char *name, void *caller)
{
    if ((uintptr_t)caller - agent_begin >= agent_end - agent_begin)
        return false;
    int n = 0;
    for (; n < MOST - 1; n++) {
        const char *found = NULL;
        if (atomic_compare_exchange_strong(&functions[n].name, &found, name) || strcmp(found, name) == 0)
            break;
    }
    unsigned long call = atomic_fetch_add(&functions[n].calls, 1) + 1;
    if (fail_at == 0 || fail_call == NULL || strcmp(fail_call, name) != 0)
        return false;
    return call == fail_at || (fail_after && call > fail_at);
}

void *malloc(size_t bytes)
{
    return fails("malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails("malloc", __builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *place, size_t bytes)
{
    return fails("malloc", __builtin_return_address(0)) ? NULL : __libc_realloc(place, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes)
{
    if (fails("malloc", __builtin_return_address(0)))
        return ENOMEM;
    *place = __libc_memalign(alignment, bytes);
    return *place == NULL ? ENOMEM : 0;
}

// The headers declare some of these as variadic: so the function has another name in C.
#define FAILING(type, failure, error, name, parameters, ...)                                                           \
    type failing_##name parameters __asm__(#name);                                                                     \
    type failing_##name parameters                                                                                     \
    {                                                                                                                  \
        static type(*next) parameters;                                                                                 \
        if (fails(#name, __builtin_return_address(0))) {                                                               \
            errno = error;                                                                                             \
            return failure;                                                                                            \
        }                                                                                                              \
        if (next == NULL)                                                                                              \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                                                 \
        return next(__VA_ARGS__);                                                                                      \
    }

// The agent makes shared memory, and finds memory for it, by the system call's number.
long failing_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long failing_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    static long (*next)(long, long, long, long, long, long, long);
    if (number == SYS_memfd_create && fails("memfd_create", __builtin_return_address(0))) {
        errno = EPERM;
        return -1;
    }
    if (number == SYS_fallocate && fails("fallocate", __builtin_return_address(0))) {
        errno = ENOSPC;
        return -1;
    }
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    return next(number, a, b, c, d, e, f);
}

FAILING(void *, MAP_FAILED, ENOMEM, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset), at, bytes, protection, flags, fd, offset)
FAILING(void *, MAP_FAILED, ENOMEM, mmap64, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset), at, bytes, protection, flags, fd, offset)
FAILING(int, -1, ENOMEM, mprotect, (void *at, size_t bytes, int protection), at, bytes, protection)
FAILING(int, -1, EINVAL, madvise, (void *at, size_t bytes, int advice), at, bytes, advice)
FAILING(int, -1, ENOSPC, ftruncate, (int fd, off_t bytes), fd, bytes)
FAILING(int, -1, EMFILE, open, (const char *path, int flags, int mode), path, flags, mode)
FAILING(int, -1, EMFILE, open64, (const char *path, int flags, int mode), path, flags, mode)
FAILING(int, -1, EMFILE, socket, (int domain, int type, int protocol), domain, type, protocol)
FAILING(int, -1, EMFILE, socketpair, (int domain, int type, int protocol, int *pair), domain, type, protocol, pair)
FAILING(int, -1, ECONNREFUSED, connect, (int fd, const struct sockaddr *address, socklen_t bytes), fd, address, bytes)
FAILING(ssize_t, -1, EPERM, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
FAILING(ssize_t, -1, ENOTSOCK, recv, (int fd, void *place, size_t bytes, int flags), fd, place, bytes, flags)
FAILING(int, -1, ENOMEM, mincore, (void *at, size_t bytes, unsigned char *pages), at, bytes, pages)
// Binaries for glibc before 2.33 call the functions with a version instead of the plain ones.
FAILING(int, -1, EACCES, stat, (const char *path, void *found), path, found)
FAILING(int, -1, EACCES, __xstat, (int version, const char *path, void *found), version, path, found)
FAILING(int, -1, EIO, fstat, (int fd, void *found), fd, found)
FAILING(int, -1, EIO, __fxstat, (int version, int fd, void *found), version, fd, found)
FAILING(int, -1, EINVAL, getrlimit, (int resource, void *limit), resource, limit)
FAILING(int, -1, EINVAL, gethostname, (char *name, size_t bytes), name, bytes)
FAILING(long, -1, EINVAL, sysconf, (int name), name)
FAILING(int, -1, EACCES, unlink, (const char *path), path)
FAILING(int, -1, EMFILE, fcntl, (int fd, int command, long argument), fd, command, argument)
FAILING(int, -1, EAGAIN, clone, (int (*body)(void *), void *stack, int flags, void *argument), body, stack, flags, argument)
FAILING(int, EAGAIN, EAGAIN, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument), thread, attributes, body, argument)
FAILING(int, EAGAIN, EAGAIN, pthread_key_create, (pthread_key_t *key, void (*destructor)(void *)), key, destructor)
FAILING(int, ENOMEM, ENOMEM, pthread_setspecific, (pthread_key_t key, const void *value), key, value)
FAILING(int, -1, EACCES, access, (const char *path, int mode), path, mode)
FAILING(ssize_t, -1, EACCES, readlink, (const char *path, char *text, size_t bytes), path, text, bytes)
FAILING(char *, NULL, ENOENT, getcwd, (char *text, size_t bytes), text, bytes)
FAILING(char *, NULL, ENOENT, realpath, (const char *path, char *text), path, text)
FAILING(ssize_t, -1, EPERM, process_vm_readv, (pid_t pid, const void *ours, unsigned long count, const void *theirs, unsigned long others, unsigned long flags), pid, ours, count, theirs, others, flags)
FAILING(ssize_t, -1, EIO, read, (int fd, void *text, size_t bytes), fd, text, bytes)
FAILING(ssize_t, -1, EPIPE, write, (int fd, const void *text, size_t bytes), fd, text, bytes)
FAILING(int, -1, EPERM, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d), option, a, b, c, d)
FAILING(int, -1, ENOMEM, dl_iterate_phdr, (int (*body)(struct dl_phdr_info *, size_t, void *), void *data), body, data)
