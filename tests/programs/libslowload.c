// A library that takes long to load: while the loader relocates it, a function of it chooses an implementation (an
// IFUNC), which takes 300 ms. After that the loader continues to write into its slots.
// link: -l:libcuda.so.1 -Wl,-z,relro,-z,now
#include "driver.h"

#include <sys/syscall.h>

static int dawdled(void)
{
    return 5;
}

// Its own slots are not all relocated yet, so it may call nothing.
static long sleep_300_ms(void)
{
    struct timespec time = {.tv_nsec = 300000000};
#if defined(__x86_64__)
    long result = SYS_nanosleep;
    __asm__ volatile("syscall" : "+a"(result) : "D"(&time), "S"(NULL) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_nanosleep;
    register long result __asm__("x0") = (long)&time;
    register long rest __asm__("x1") = 0;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(number), "r"(rest) : "memory");
#endif
    return result;
}

static int (*choose(void))(void)
{
    return sleep_300_ms() == 0 ? dawdled : NULL;
}

static int dawdle(void) __attribute__((ifunc("choose")));

int dawdle_work(void *function, void *stream, int launches)
{
    for (int n = 0; n < launches; n++)
        launch(function, stream);
    return dawdle();
}
