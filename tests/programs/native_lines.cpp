// Calls from native code whose lines the report must name: tests/e2e/native_lines.rs compiles it in many ways. For each
// memset it prints its bytes, the line of the source that a user wants to see, and the function's name.

#include "native_lines.h"
#include "include/c++/native_header.h"

#include <cstdio>
#include <functional>

// The call is not the last act of its function: a compiler would make it a jump, which leaves no return address.
static volatile int failed;
static int bytes;
static char *memory;

#define SAY(function) std::printf("%d %d %s\n", ++bytes, __LINE__, function)
#define MEMSET(function) (SAY(function), failed = failed | cudaMemset(memory, 0, static_cast<size_t>(bytes)))

static inline __attribute__((always_inline)) void inlined() { MEMSET("inlined"); }

namespace model {
struct Trainer {
    __attribute__((noinline)) void step(int times) {
        MEMSET("model::Trainer::step");
        for (int i = 0; i < times; i++) {
            inlined();
        }
        MEMSET("model::Trainer::step");
    }
    template <typename T> __attribute__((noinline)) void apply(T) { MEMSET("model::Trainer::apply"); }
};
} // namespace model

__attribute__((noinline)) static void through_a_header() {
    SAY("through_a_header"); failed = failed | header_memset(memory, static_cast<size_t>(bytes));
}

__attribute__((noinline)) static void with_a_lambda(const std::function<void()> &call) {
    call();
    failed = failed | 0;
}

__attribute__((noinline, cold)) static void fails() { MEMSET("fails"); }

int main() {
    cudaMalloc(reinterpret_cast<void **>(&memory), 1 << 16);
    model::Trainer trainer;
    trainer.step(3);
    trainer.apply(1.5);
    trainer.apply('c');
    through_a_header();
    with_a_lambda([] { MEMSET("operator()"); });
    fails();
    SAY("library_memset"); failed = failed | library_memset(memory, bytes);
    MEMSET("main");
    failed = failed | cudaDeviceSynchronize();
    cudaFree(memory);
    return failed;
}
