// Runs kernels that spin for a known time and report how long by the GPU's own timer. Prints the line of JSON that
// parts.py describes.
//
//   cuda [storm] [--quick]     storm: the shortest kernels, as fast as the host can launch them
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <ctime>
#include <map>
#include <string>
#include <vector>

typedef unsigned long long u64;

static void check(cudaError_t result, const char *call)
{
    if (result != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(result));
        exit(result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver ? 77 : 1);
    }
}
#define CHECK(call) check(call, #call)

static __device__ u64 timer()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __device__ void spin(u64 ns, u64 *took)
{
    u64 begin = timer(), now = begin;
    while (now - begin < ns)
        now = timer();
    if (threadIdx.x == 0)
        *took = now - begin;
}

extern "C" __global__ void spin_2us(u64 *took) { spin(2000, took); }
extern "C" __global__ void spin_10us(u64 *took) { spin(10000, took); }
extern "C" __global__ void spin_100us(u64 *took) { spin(100000, took); }
extern "C" __global__ void alone_10us(u64 *took) { spin(10000, took); }
extern "C" __global__ void storm(u64 *) {}

static u64 now(clockid_t clock)
{
    timespec time;
    clock_gettime(clock, &time);
    return (u64)time.tv_sec * 1000000000u + (u64)time.tv_nsec;
}

static u64 raw()
{
    return now(CLOCK_MONOTONIC_RAW);
}

struct Moment {
    u64 raw, real;
};

static Moment both_clocks()
{
    u64 before = raw(), real = now(CLOCK_REALTIME), after = raw();
    return {(before + after) / 2, real};
}

typedef void (*Kernel)(u64 *);

// The launches of the measured part in order; `took` has, at the same index, the time that the GPU measured for each.
static std::vector<std::string> launched;
static u64 *took;
static cudaStream_t stream;
static bool is_measured;

static void launch(const char *name, Kernel kernel)
{
    u64 *place = took + (is_measured ? launched.size() : 0);
    kernel<<<1, 32, 0, stream>>>(place);
    CHECK(cudaGetLastError());
    if (is_measured)
        launched.push_back(name);
}

static void work_step()
{
    launch("spin_2us", spin_2us);
    launch("spin_10us", spin_10us);
    launch("spin_2us", spin_2us);
    launch("spin_100us", spin_100us);
    launch("spin_2us", spin_2us);
}

static void storm_step()
{
    launch("storm", storm);
}

static double group(bool is_storm, int steps)
{
    u64 began = raw();
    for (int step = 0; step < steps; step++)
        is_storm ? storm_step() : work_step();
    CHECK(cudaStreamSynchronize(stream));
    double each = (double)(raw() - began) / steps;
    // On a drained stream, where a carelessly placed event pair is furthest off.
    if (!is_storm) {
        launch("alone_10us", alone_10us);
        CHECK(cudaStreamSynchronize(stream));
    }
    return each;
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int main(int argc, char **argv)
{
    bool is_storm = false, is_quick = false;
    for (int at = 1; at < argc; at++) {
        is_storm |= strcmp(argv[at], "storm") == 0;
        is_quick |= strcmp(argv[at], "--quick") == 0;
    }
    int steps = is_storm ? 500 : 20, groups = is_quick ? 20 : 60;
    size_t most = (size_t)groups * (steps * 5 + 1);
    CHECK(cudaMalloc(&took, most * sizeof *took));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    launched.reserve(most);
    for (int warm = 0; warm < 5; warm++)
        group(is_storm, steps);

    is_measured = true;
    std::vector<double> samples;
    Moment first = both_clocks();
    for (int at = 0; at < groups; at++)
        samples.push_back(group(is_storm, steps));
    Moment last = both_clocks();

    std::vector<u64> answers(launched.size());
    CHECK(cudaMemcpy(answers.data(), took, answers.size() * sizeof(u64), cudaMemcpyDeviceToHost));
    std::map<std::string, std::vector<double>> by_name;
    for (size_t at = 0; at < launched.size(); at++)
        by_name[launched[at]].push_back((double)answers[at]);
    int runtime, driver;
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));

    printf("{\"program\":\"cuda\",\"steps\":%d,\"step_ns\":%.1f,\"region\":[%llu,%llu],", steps * groups, median(samples),
           first.raw, last.raw);
    printf("\"clocks\":[[%llu,%llu],[%llu,%llu]],\"launches\":%zu,\"kernels\":{", first.raw, first.real, last.raw, last.real,
           launched.size());
    const char *comma = "";
    for (auto &kernel : by_name) {
        printf("%s\"%s\":%zu", comma, kernel.first.c_str(), kernel.second.size());
        comma = ",";
    }
    printf("},\"true_ns\":{");
    comma = "";
    if (!is_storm)
        for (auto &kernel : by_name) {
            printf("%s\"%s\":%.0f", comma, kernel.first.c_str(), median(kernel.second));
            comma = ",";
        }
    printf("},\"versions\":{\"cudart\":\"%d\",\"driver API\":\"%d\"}}\n", runtime, driver);
    return 0;
}
