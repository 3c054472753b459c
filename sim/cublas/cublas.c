// A simulated libcublas.so.12: each operation launches one kernel of its name on the handle's stream, through a driver that
// the library finds itself, as NVIDIA's does with the runtime inside it. Nothing is computed.
//
// cuBLAS's documentation lists the operations' arguments; only the handle is read. The functions are declared with that
// argument alone, which the calling conventions of x86-64 and AArch64 allow: the caller places and removes arguments.

#define OPERATIONS(_) \
    _(Sgemm_v2) _(Dgemm_v2) _(SgemmEx) _(GemmEx) \
    _(SgemmStridedBatched) _(DgemmStridedBatched) _(GemmStridedBatchedEx) \
    _(SgemmBatched) _(Sgemv_v2) _(Dgemv_v2) _(Sdot_v2) _(DotEx)

// A kernel's duration on the simulated GPU is in its name.
#define KERNEL(operation) "simcublas_" #operation "_20us"
#define ENTRY(operation) ".visible .entry " "simcublas_" #operation "_20us() { ret; }\n"

static const char module_text[] = ".version 7.0\n.target sm_70\n.address_size 64\n" OPERATIONS(ENTRY);

#include "launch.h"

struct handle {
    void *stream;
    uint64_t workspace;
    int pointer_mode, math_mode;
};

// Takes memory of its own as the real one does, which applications wonder about.
enum { WORKSPACE_BYTES = 8519680 };

int cublasCreate_v2(struct handle **place) {
    if (!ready())
        return NOT_INITIALIZED;
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle || driver.mem_alloc(&handle->workspace, WORKSPACE_BYTES) != 0) {
        free(handle);
        return ALLOC_FAILED;
    }
    *place = handle;
    return SUCCESS;
}

// Its documentation: "will implicitly call cudaDeviceSynchronize()".
int cublasDestroy_v2(struct handle *handle) {
    driver.ctx_synchronize();
    driver.mem_free(handle->workspace);
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(struct handle *handle, void *stream) {
    handle->stream = stream;
    return SUCCESS;
}

int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes) {
    (void)handle, (void)workspace, (void)bytes;
    return SUCCESS;
}

int cublasSetMathMode(struct handle *handle, int mode) {
    handle->math_mode = mode;
    return SUCCESS;
}

int cublasGetMathMode(struct handle *handle, int *mode) {
    *mode = handle->math_mode;
    return SUCCESS;
}

int cublasSetPointerMode_v2(struct handle *handle, int mode) {
    handle->pointer_mode = mode;
    return SUCCESS;
}

int cublasGetPointerMode_v2(struct handle *handle, int *mode) {
    *mode = handle->pointer_mode;
    return SUCCESS;
}

#define DEFINE(operation) \
    int cublas##operation(struct handle *handle) { return launch(KERNEL(operation), handle->stream); }
OPERATIONS(DEFINE)
