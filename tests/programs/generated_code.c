// Calls the runtime from code that it generates, as a just-in-time compiler does, and lists that code for perf, unless the
// argument is "unlisted". With a number, it goes on calling for so many seconds then. Prints its process id.
// link: -l:libcudart.so.12
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 4096, SECOND = 64, CALLS_A_SECOND = 100 };

int main(int count, char **words)
{
    int calls = count > 1 ? atoi(words[1]) * CALLS_A_SECOND : 0;
#ifdef __aarch64__
    // stp x29, x30, [sp, -16]!; blr x0; ldp x29, x30, [sp], 16; ret
    static const unsigned code[] = {0xa9bf7bfd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
#else
    // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
#endif
    unsigned char *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    memcpy(page, code, sizeof code);
    memcpy(page + SECOND, code, sizeof code);
    __builtin___clear_cache((char *)page, (char *)page + SIZE);
    cudaError_t (*first)(cudaError_t (*)(void)) = (void *)page, (*second)(cudaError_t (*)(void)) = (void *)(page + SECOND);
    cudaFree(NULL);
    for (int n = 0; n < 3; n++)
        if (first(cudaDeviceSynchronize) != cudaSuccess)
            return 1;
    if (second(cudaDeviceSynchronize) != cudaSuccess)
        return 1;
    if (count == 1 || calls > 0) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        FILE *list = fopen(path, "w");
        if (!list)
            return 1;
        fprintf(list, "%lx %zx Lapp/Train;::step\n", (unsigned long)page, sizeof code);
        fprintf(list, "%lx %zx Lapp/Train;::\xe2\x80\xaelast\n", (unsigned long)(page + SECOND), sizeof code);
        fclose(list);
    }
    for (int n = 0; n < calls; n++, usleep(1000000 / CALLS_A_SECOND))
        if (first(cudaDeviceSynchronize) != cudaSuccess)
            return 1;
    printf("%d\n", getpid());
    return 0;
}
