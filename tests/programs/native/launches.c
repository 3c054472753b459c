// Launches a kernel as nvcc's output does for kernel<<<...>>>(), from functions of many shapes, and prints the line and the
// function of each launch. What nvcc writes is written here by hand: the kernel's own function, which calls a stub, which calls
// the runtime.
#include "../fat_binary.h"
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

typedef struct {
    unsigned x, y, z;
} dim3;
int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream);
int cudaDeviceSynchronize(void);
int cudaMalloc(void **memory, size_t bytes);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);

void work_300us(void);

__attribute__((noinline)) static void __device_stub_work_300us(void)
{
    dim3 one = {1, 1, 1};
    void *arguments[1] = {NULL};
    if (cudaLaunchKernel((const void *)work_300us, one, one, arguments, 0, NULL))
        abort();
}

__attribute__((noinline)) void work_300us(void)
{
    __device_stub_work_300us();
}

__attribute__((constructor)) static void registers(void)
{
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)work_300us, "work_300us");
    __cudaRegisterFatBinaryEnd(handle);
}

// The launch is not the last thing that a function does, so that no compiler makes it a jump.
#define LAUNCH() (printf("%d %s\n", __LINE__, __func__), work_300us(), keep())

static volatile int kept;
static void keep(void) { kept++; }

__attribute__((noinline)) static void small(void) { LAUNCH(); }

__attribute__((noinline)) static int recursive(int depth)
{
    if (depth > 0)
        return recursive(depth - 1) + 1;
    LAUNCH();
    return depth;
}

__attribute__((noinline)) static void large(void)
{
    volatile char block[100000];
    block[99999] = 1;
    LAUNCH();
    block[0] = block[99999];
}

__attribute__((noinline)) static void of_any_size(size_t bytes)
{
    volatile char *block = alloca(bytes);
    block[bytes - 1] = 1;
    LAUNCH();
    block[0] = block[bytes - 1];
}

__attribute__((noinline)) static double with_many_values(double a, double b, long c, long d, long e, long f, long g, long h)
{
    double sum = a * b + (double)(c ^ d) + (double)(e * f);
    LAUNCH();
    return sum + a + b + (double)(c + d + e + f + g + h);
}

static int compared(const void *one, const void *other)
{
    LAUNCH();
    return *(const int *)one - *(const int *)other;
}

static void handled(int number)
{
    (void)number;
    LAUNCH();
}

static void *of_thread(void *argument)
{
    small();
    LAUNCH();
    return argument;
}

static ucontext_t outside, inside;

static void of_coroutine(void)
{
    LAUNCH();
}

__attribute__((noinline)) static int deep(int depth, void *memory)
{
    static char host[64];
    int result = depth ? deep(depth - 1, memory) : cudaMemcpy(host, memory, sizeof host, 2);
    keep();
    return result;
}

int main(void)
{
    LAUNCH();
    small();
    recursive(7);
    large();
    for (size_t bytes = 1; bytes < 5000; bytes *= 7)
        of_any_size(bytes);
    with_many_values(1, 2, 3, 4, 5, 6, 7, 8);
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compared);
    signal(SIGUSR1, handled);
    raise(SIGUSR1);
    pthread_t thread;
    pthread_attr_t attributes;
    for (int own_stack = 0; own_stack < 2; own_stack++) {
        pthread_attr_init(&attributes);
        if (own_stack)
            pthread_attr_setstack(&attributes, aligned_alloc(4096, 1 << 20), 1 << 20);
        if (pthread_create(&thread, &attributes, of_thread, NULL) || pthread_join(thread, NULL))
            return 1;
    }
    getcontext(&inside);
    inside.uc_stack.ss_sp = malloc(1 << 18);
    inside.uc_stack.ss_size = 1 << 18;
    inside.uc_link = &outside;
    makecontext(&inside, of_coroutine, 0);
    swapcontext(&outside, &inside);
    void *memory;
    return cudaMalloc(&memory, 64) || deep(20, memory) || cudaDeviceSynchronize();
}
