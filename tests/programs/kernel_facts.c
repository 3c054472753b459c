// Launches kernels with different needs on a multiprocessor, in every way that the driver has: in two alternating
// shapes, as CUkernels, on two devices at once, in a capture, from a graph's nodes, and from modules that are loaded
// again under the same handle. No query about kernels may invalidate a capture.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common.h"

enum { DEVICES = 2, TURNS = 20, ROUNDS = 3 };

static uint64_t nothing;
static void *arguments[] = {&nothing};
static CUstream streams[DEVICES];

static CUmodule load(const char *name, CUfunction *function)
{
    CUmodule module;
    char *ptx = ptx_module(&name, 1);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(function, module, name));
    free(ptx);
    return module;
}

static CUkernel load_library(const char *name)
{
    CUlibrary library;
    CUkernel kernel;
    char *ptx = ptx_module(&name, 1);
    CHECK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, name));
    free(ptx);
    return kernel;
}

static void launch(CUfunction kernel, unsigned blocks, unsigned threads, unsigned shared_bytes)
{
    CHECK(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared_bytes, streams[0], arguments, NULL));
}

// Two alternating shapes; a third once; the second with more dynamic shared memory than a block may have by default.
static void launch_shapes(void)
{
    CUfunction plain, wide;
    load("plain_5us", &plain);
    load("wide_regs128_smem16384_local48_5us", &wide);
    CHECK(cuFuncSetAttribute(wide, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    for (int turn = 0; turn < TURNS; turn++) {
        launch(plain, 264, 256, 0);
        launch(plain, 100 + (unsigned)turn, 96, 4096);
        launch(wide, 66, 256, 64 << 10);
        CUlaunchConfig config = {.gridDimX = 264, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 16, .blockDimY = 16, .blockDimZ = 1};
        config.hStream = streams[0];
        CHECK(cuLaunchKernelEx(&config, plain, arguments, NULL));
    }
    launch(plain, 1, 1024, 0);
    REQUIRE(cuLaunchKernel(wide, 1, 1, 1, 1024, 1, 1, 0, streams[0], arguments, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    REQUIRE(cuLaunchKernel(plain, 1, 1, 1, 32, 1, 1, 100 << 10, streams[0], arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    // Blocks of the size that was set before: this launch call does not pass one.
    CHECK(cuFuncSetBlockShape(plain, 64, 1, 1));
    CHECK(cuLaunchGrid(plain, 4, 2));
    CHECK(cuStreamSynchronize(streams[0]));
}

static void launch_kernels(CUcontext contexts[DEVICES])
{
    CUkernel kernel = load_library("kernel_regs64_5us");
    CUfunction of_kernel, first, second;
    for (int turn = 0; turn < TURNS; turn++)
        launch((CUfunction)kernel, 132, 512, 0);
    CHECK(cuKernelGetFunction(&of_kernel, kernel));
    launch(of_kernel, 132, 256, 0);
    CHECK(cuLaunchCooperativeKernel(of_kernel, 2, 1, 1, 128, 1, 1, 0, streams[0], arguments));
    load("both_regs72_5us", &first);
    CHECK(cuCtxSetCurrent(contexts[1]));
    load("both_regs72_5us", &second);
    CHECK(cuCtxSetCurrent(contexts[0]));
    CUDA_LAUNCH_PARAMS all[DEVICES] = {{first, 2, 1, 1, 64, 1, 1, 0, streams[0], arguments},
                                       {second, 2, 1, 1, 64, 1, 1, 0, streams[1], arguments}};
    for (int turn = 0; turn < TURNS; turn++)
        CHECK(cuLaunchCooperativeKernelMultiDevice(all, DEVICES, 0));
    CHECK(cuStreamSynchronize(streams[0]));
}

static void launch_graphs(void)
{
    CUfunction captured, node;
    CUkernel kernel = load_library("captured_kernel_regs56_5us");
    CUgraph graph;
    CUgraphNode added;
    CUgraphExec executable;
    CUstreamCaptureStatus status;
    size_t nodes;
    load("captured_regs48_5us", &captured);
    load("node_regs40_smem512_5us", &node);
    CHECK(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int turn = 0; turn < TURNS; turn++) {
        launch(captured, 20, 192, 1024);
        launch((CUfunction)kernel, 20, 160, 0);
    }
    CHECK(cuStreamIsCapturing(streams[0], &status));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(cuStreamEndCapture(streams[0], &graph));
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = node, .gridDimX = 7, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128,
                                             .blockDimY = 1, .blockDimZ = 1, .sharedMemBytes = 2048, .kernelParams = arguments};
    CHECK(cuGraphAddKernelNode_v2(&added, graph, NULL, 0, &parameters));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    REQUIRE(nodes == 2 * TURNS + 1);
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int turn = 0; turn < ROUNDS; turn++)
        CHECK(cuGraphLaunch(executable, streams[0]));
    parameters.blockDimX = 224;
    CHECK(cuGraphExecKernelNodeSetParams_v2(executable, added, &parameters));
    CHECK(cuGraphLaunch(executable, streams[0]));
    CHECK(cuStreamSynchronize(streams[0]));
}

static void reload(void)
{
    static const char *const names[ROUNDS] = {"one_regs50_5us", "two_regs60_5us", "three_regs70_5us"};
    CUfunction functions[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        CUmodule module = load(names[round], &functions[round]);
        launch(functions[round], 10, 256, 0);
        launch(functions[round], 10, 256, 0);
        CHECK(cuStreamSynchronize(streams[0]));
        CHECK(cuModuleUnload(module));
    }
    // Otherwise this program would prove less.
    REQUIRE(functions[0] == functions[1] && functions[1] == functions[2]);
}

int main(void)
{
    CUcontext contexts[DEVICES];
    CHECK(cuInit(0));
    for (int device = DEVICES - 1; device >= 0; device--) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        CHECK(cuCtxSetCurrent(contexts[device]));
        CHECK(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
    }
    launch_shapes();
    launch_kernels(contexts);
    launch_graphs();
    reload();
    printf("{\"program\":\"kernel_facts\",\"pid\":%d}\n", getpid());
    return 0;
}
