// A gate: a word in memory that streams wait for until the program writes it. Also an alarm for programs that could
// wait for good.
#pragma once
#include <signal.h>

#include "driver.h"

enum { EXIT_STUCK = 98 };

struct gate {
    volatile uint32_t *word;
    CUdeviceptr on_device;
};

static inline struct gate new_gate(void)
{
    struct gate gate;
    CHECK(cuMemHostAlloc((void **)&gate.word, sizeof *gate.word, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostGetDevicePointer(&gate.on_device, (void *)gate.word, 0));
    *gate.word = 0;
    return gate;
}

static inline void stand_behind(struct gate gate, CUstream stream)
{
    CHECK(cuStreamWaitValue32(stream, gate.on_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static inline void open_gate(struct gate gate)
{
    *gate.word = 1;
}

static void stuck(int signal)
{
    (void)signal;
    static const char text[] = "stuck\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_FAILED_CALL);
    _exit(EXIT_STUCK);
}

// Ends the program with code 98 if it is still running then.
static inline void end_if_stuck(unsigned after_seconds)
{
    signal(SIGALRM, stuck);
    alarm(after_seconds);
}
