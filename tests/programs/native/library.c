// A library of native_lines.cpp, in C.

#include "../native_lines.h"

static volatile int failed;

int library_memset(void *memory, int bytes) {
    failed = failed | cudaMemset(memory, 0, (size_t)bytes); // the line of the library's own call
    return failed;
}
