// Stands for a header of the system, by its folder: a line of it is none of the program's.

#pragma once

#include "../../native_lines.h"

static inline __attribute__((always_inline)) int header_memset(void *memory, size_t bytes) {
    return cudaMemset(memory, 0, bytes) | 0;
}
