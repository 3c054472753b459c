// A simulated libcublasLt.so.12: a matrix product launches one kernel, through a driver that the library finds itself.
// Descriptors are empty, and every query for an algorithm returns the same one. The signatures are those of cuBLAS's
// documentation.

#define KERNEL "simcublasLt_Matmul_30us"

static const char module_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry " KERNEL "() { ret; }\n";

#include "launch.h"

// cublasLtMatmulHeuristicResult_t.
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

static int create(void **place) {
    *place = malloc(1);
    return *place ? SUCCESS : ALLOC_FAILED;
}

static int destroy(void *descriptor) {
    free(descriptor);
    return SUCCESS;
}

int cublasLtMatmulDescCreate(void **place, int compute_type, int scale_type) {
    (void)compute_type, (void)scale_type;
    return create(place);
}

int cublasLtMatrixLayoutCreate(void **place, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    (void)type, (void)rows, (void)columns, (void)leading;
    return create(place);
}

int cublasLtMatmulPreferenceCreate(void **place) { return create(place); }
int cublasLtMatmulDescDestroy(void *descriptor) { return destroy(descriptor); }
int cublasLtMatrixLayoutDestroy(void *descriptor) { return destroy(descriptor); }
int cublasLtMatmulPreferenceDestroy(void *descriptor) { return destroy(descriptor); }

static int set(void *descriptor, int attribute, const void *value, size_t bytes) {
    (void)descriptor, (void)attribute, (void)value, (void)bytes;
    return SUCCESS;
}

int cublasLtMatmulDescSetAttribute(void *descriptor, int attribute, const void *value, size_t bytes) {
    return set(descriptor, attribute, value, bytes);
}

int cublasLtMatrixLayoutSetAttribute(void *descriptor, int attribute, const void *value, size_t bytes) {
    return set(descriptor, attribute, value, bytes);
}

int cublasLtMatmulPreferenceSetAttribute(void *descriptor, int attribute, const void *value, size_t bytes) {
    return set(descriptor, attribute, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                   int most, struct heuristic *results, int *count) {
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *count = most > 0;
    memset(results, 0, *count * sizeof *results);
    return SUCCESS;
}

int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
    (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)d_layout, (void)algorithm, (void)workspace, (void)workspace_bytes;
    return launch(KERNEL, stream);
}
