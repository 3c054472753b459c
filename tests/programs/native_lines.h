// What the programs of native_lines.cpp call.

#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
int cudaMalloc(void **memory, size_t bytes);
int cudaMemset(void *memory, int value, size_t bytes);
int cudaDeviceSynchronize(void);
int cudaFree(void *memory);
int library_memset(void *memory, int bytes);
#ifdef __cplusplus
}
#endif
