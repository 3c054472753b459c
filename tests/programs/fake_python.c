// link: -l:libcudart.so.12 -lfakepython
// Works on a GPU in a process with a library that pretends to be a Python interpreter (libfakepython.c).
#include <cuda_runtime_api.h>
#include <stdio.h>

void *PyGILState_GetThisThreadState(void);

int main(void) {
    void *block;
    if (cudaMalloc(&block, 1 << 16)) return 1;
    for (int n = 0; n < 100; n++) {
        if (cudaMemset(block, 0, 1 << 16)) return 1;
    }
    if (cudaDeviceSynchronize() || cudaFree(block)) return 1;
    // The library has to be needed, so that it is linked.
    printf("%d\n", PyGILState_GetThisThreadState() != NULL);
    return 0;
}
