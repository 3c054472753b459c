// Loads libraries one after another, calls each CALLS times, a hundred a second, and unloads it: plugins CALLS FOLDER LIBRARY…. Each
// is loaded in the folder, and called in another one. For each it prints where its function was. What is called once ends the
// program, and stays loaded.

#include "../native_lines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    void *memory;
    if (cudaMalloc(&memory, 4096) != 0) {
        return 1;
    }
    int calls = atoi(arguments[1]);
    for (int at = 3; at < count; at++) {
        if (chdir(arguments[2]) != 0) {
            return 2;
        }
        void *library = dlopen(arguments[at], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || chdir("/") != 0) {
            return 3;
        }
        int (*library_memset)(void *, int) = (int (*)(void *, int))dlsym(library, "library_memset");
        printf("%p\n", (void *)library_memset);
        for (int call = 0; call < calls; call++) {
            if (library_memset(memory, at - 1) != 0) {
                return 4;
            }
            if (calls == 1) {
                return 0;
            }
            usleep(10000);
        }
        dlclose(library);
    }
    return 0;
}
