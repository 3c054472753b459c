// Loads libraries one after another, calls each a hundred times within a second, and unloads it: plugins FOLDER LIBRARY…. Each is
// loaded in the folder, and called in another one. For each it prints where its function was.

#include "../native_lines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
    void *memory;
    if (cudaMalloc(&memory, 4096) != 0) {
        return 1;
    }
    for (int at = 2; at < count; at++) {
        if (chdir(arguments[1]) != 0) {
            return 2;
        }
        void *library = dlopen(arguments[at], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || chdir("/") != 0) {
            return 3;
        }
        int (*library_memset)(void *, int) = (int (*)(void *, int))dlsym(library, "library_memset");
        printf("%p\n", (void *)library_memset);
        for (int call = 0; call < 100; call++) {
            if (library_memset(memory, at) != 0) {
                return 4;
            }
            usleep(10000);
        }
        dlclose(library);
    }
    return 0;
}
