// Uses CUkernels and CUfunctions that no call gave a name to: enumerated, converted from one another, in a capture, in
// either of the two fields of a graph's nodes, and after an unload that failed. No tracer may query one as if it were
// the other. Prints the launches by kernel.
// link: -l:libcuda.so.1
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "common.h"

enum { TURNS = 5 };

static uint64_t nothing;
static void *arguments[] = {&nothing};
static CUstream stream;
static long launches, by_kernel_handle;

static void launch(CUfunction handle)
{
    for (int turn = 0; turn < TURNS; turn++, launches++)
        CHECK(cuLaunchKernel(handle, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

static void launch_kernel(CUkernel kernel)
{
    launch((CUfunction)kernel);
    by_kernel_handle += TURNS;
}

// Loads a library with one kernel, which is found by enumeration only. The array has more room: the rest must stay
// unchanged.
static CUkernel enumerate(const char *name, CUlibrary *library)
{
    CUkernel kernels[3] = {NULL, (CUkernel)0x1230, (CUkernel)0x4560};
    char *ptx = ptx_module(&name, 1);
    CHECK(cuLibraryLoadData(library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryEnumerateKernels(kernels, 3, *library));
    REQUIRE(kernels[0] != NULL && kernels[1] == (CUkernel)0x1230 && kernels[2] == (CUkernel)0x4560);
    free(ptx);
    return kernels[0];
}

static void launch_functions(void)
{
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    const char *name = "enumerated_2us";
    char *ptx = ptx_module(&name, 1);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleEnumerateFunctions(&function, 1, module));
    launch(function);
    // The function of a kernel that was never launched itself.
    CHECK(cuKernelGetFunction(&function, enumerate("of_kernel_2us", &library)));
    launch(function);
    free(ptx);
}

static CUDA_KERNEL_NODE_PARAMS_v2 parameters(CUfunction function, CUkernel kernel)
{
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
                                             .blockDimY = 1, .blockDimZ = 1, .kernelParams = arguments, .kern = kernel};
    return parameters;
}

static void launch_graphs(void)
{
    CUlibrary library;
    CUkernel captured = enumerate("captured_2us", &library), node = enumerate("node_2us", &library);
    CUfunction other, of_node;
    CUmodule module;
    CUgraph graph;
    CUgraphNode added;
    CUgraphExec executable;
    const char *name = "other_2us";
    char *ptx = ptx_module(&name, 1);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleEnumerateFunctions(&other, 1, module));
    CHECK(cuKernelGetFunction(&of_node, node));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuLaunchKernel((CUfunction)captured, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    by_kernel_handle++;
    CHECK(cuStreamEndCapture(stream, &graph));
    CUDA_KERNEL_NODE_PARAMS_v2 by_kernel = parameters(NULL, node);
    CHECK(cuGraphAddKernelNode_v2(&added, graph, NULL, 0, &by_kernel));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, stream));
    // If there is a function, the other field is ignored.
    CUDA_KERNEL_NODE_PARAMS_v2 by_function = parameters(other, (CUkernel)0x7890);
    CHECK(cuGraphExecKernelNodeSetParams_v2(executable, added, &by_function));
    CHECK(cuGraphLaunch(executable, stream));
    free(ptx);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUlibrary library;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUkernel kernel = enumerate("kernel_2us", &library);
    launch_kernel(kernel);
    // The test makes this one call fail.
    REQUIRE(cuLibraryUnload(library) != CUDA_SUCCESS);
    launch_kernel(kernel);
    launch_functions();
    launch_graphs();
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLibraryUnload(library));
    printf("{\"program\":\"kernel_handles\",\"launches\":%ld,\"by_kernel_handle\":%ld,\"kernels\":{\"kernel_2us\":%d,"
           "\"enumerated_2us\":%d,\"of_kernel_2us\":%d,\"captured_2us\":2,\"node_2us\":1,\"other_2us\":1}}\n",
           launches, by_kernel_handle, 2 * TURNS, TURNS, TURNS);
    return 0;
}
