// Shared by both libraries: finding the driver, as a library with a runtime of its own does, and one kernel per operation.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Codes of cublasStatus_t, as cuBLAS's documentation lists them.
enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, EXECUTION_FAILED = 13 };

typedef int GetProcAddress(const char *name, void **address, int version, uint64_t flags, int *status);

static struct {
    int (*library_load_data)(void **library, const void *code, void *, void *, unsigned, void *, void *, unsigned);
    int (*library_get_kernel)(void **kernel, void *library, const char *name);
    int (*launch_kernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,
                         void **extra);
    int (*mem_alloc)(uint64_t *block, size_t bytes);
    int (*mem_free)(uint64_t block);
    int (*ctx_synchronize)(void);
} driver;

// The operations' kernels, in one module of PTX: none has code that matters.
static void *library;

static void *ask(GetProcAddress *get_proc_address, const char *name, int version) {
    void *address = NULL;
    int status = 0;
    return get_proc_address(name, &address, version, 0, &status) == 0 ? address : NULL;
}

// Without a driver, or without one of its functions, `library` stays NULL.
static void find_driver(void) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    GetProcAddress *first = handle ? (GetProcAddress *)dlsym(handle, "cuGetProcAddress_v2") : NULL;
    // What that one hands out under its own name is used for everything else, as runtimes do.
    GetProcAddress *get_proc_address = first ? (GetProcAddress *)ask(first, "cuGetProcAddress", 12000) : NULL;
    if (!get_proc_address)
        return;
    struct {
        void *place;
        const char *name;
        int version;
    } wanted[] = {
        {&driver.library_load_data, "cuLibraryLoadData", 12000},
        {&driver.library_get_kernel, "cuLibraryGetKernel", 12000},
        {&driver.launch_kernel, "cuLaunchKernel", 4000},
        {&driver.mem_alloc, "cuMemAlloc", 3020},
        {&driver.mem_free, "cuMemFree", 3020},
        {&driver.ctx_synchronize, "cuCtxSynchronize", 2000},
    };
    for (size_t at = 0; at < sizeof wanted / sizeof *wanted; at++) {
        void *address = ask(get_proc_address, wanted[at].name, wanted[at].version);
        if (!address)
            return;
        memcpy(wanted[at].place, &address, sizeof address);
    }
    if (driver.library_load_data(&library, module_text, NULL, NULL, 0, NULL, NULL, 0) != 0)
        library = NULL;
}

static int ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_driver);
    return library != NULL;
}

// Puts an operation's kernel onto the stream: a CUkernel may stand for a CUfunction (cuda.h, cuLaunchKernel).
static int launch(const char *name, void *stream) {
    void *kernel = NULL;
    if (!ready())
        return NOT_INITIALIZED;
    if (driver.library_get_kernel(&kernel, library, name) != 0)
        return EXECUTION_FAILED;
    void *no_arguments[] = {NULL};
    int result = driver.launch_kernel(kernel, 16, 1, 1, 128, 1, 1, 0, stream, no_arguments, NULL);
    return result == 0 ? SUCCESS : EXECUTION_FAILED;
}
