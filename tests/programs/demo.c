// A small training loop with the habits that leave a GPU idle: pageable input copies, a synchronisation per step to read
// the loss, a host that prepares data while nothing runs, memory that grows, and a checkpoint now and then.
//
// Needs no NVIDIA header and is linked against nothing of CUDA: it finds the driver the way a runtime library does. Its
// kernels are PTX that spins for as long as the name says, so that it shows the same picture on any GPU since Volta.
//
//   demo [STEPS]     200 steps if not said otherwise, about 3 s
//   demo --check     exit code 0 if there is a GPU to run on
#include "common.h"

#include <dlfcn.h>

// ---- the driver, as far as it is used here: prototypes by CUDA's documentation ----

typedef struct context *context;
typedef struct module *module;
typedef struct function *function;
typedef struct stream *stream;
typedef uint64_t device_pointer;

static struct {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int length, int device);
    int (*primary_retain)(context *context, int device);
    int (*primary_release)(int device);
    int (*set_current)(context context);
    int (*module_load)(module *module, const void *image);
    int (*module_function)(function *function, module module, const char *name);
    int (*alloc)(device_pointer *block, size_t bytes);
    int (*free)(device_pointer block);
    int (*copy_in)(device_pointer to, const void *from, size_t bytes);
    int (*copy_out)(void *to, device_pointer from, size_t bytes);
    int (*copy_out_async)(void *to, device_pointer from, size_t bytes, stream stream);
    int (*set_async)(device_pointer to, unsigned char value, size_t bytes, stream stream);
    int (*stream_create)(stream *stream, unsigned flags);
    int (*stream_sync)(stream stream);
    int (*stream_destroy)(stream stream);
    int (*launch)(function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared_bytes, stream stream, void **arguments, void **extra);
} cu;

// False where there is no driver, or one older than CUDA 12.
static bool find_driver(void)
{
    static const struct {
        const char *name;
        int version;
        void *place;
    } wanted[] = {
        {"cuInit", 2000, &cu.init},
        {"cuDeviceGetCount", 2000, &cu.device_count},
        {"cuDeviceGet", 2000, &cu.device_get},
        {"cuDeviceGetName", 2000, &cu.device_name},
        {"cuDevicePrimaryCtxRetain", 7000, &cu.primary_retain},
        {"cuDevicePrimaryCtxRelease", 11000, &cu.primary_release},
        {"cuCtxSetCurrent", 4000, &cu.set_current},
        {"cuModuleLoadData", 2000, &cu.module_load},
        {"cuModuleGetFunction", 2000, &cu.module_function},
        {"cuMemAlloc", 3020, &cu.alloc},
        {"cuMemFree", 3020, &cu.free},
        {"cuMemcpyHtoD", 3020, &cu.copy_in},
        {"cuMemcpyDtoH", 3020, &cu.copy_out},
        {"cuMemcpyDtoHAsync", 3020, &cu.copy_out_async},
        {"cuMemsetD8Async", 3020, &cu.set_async},
        {"cuStreamCreate", 2000, &cu.stream_create},
        {"cuStreamSynchronize", 2000, &cu.stream_sync},
        {"cuStreamDestroy", 4000, &cu.stream_destroy},
        {"cuLaunchKernel", 4000, &cu.launch},
    };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, uint64_t, int *) = NULL;
    if (driver != NULL)
        *(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
    if (get == NULL)
        return false;
    for (size_t index = 0; index < sizeof wanted / sizeof wanted[0]; index++) {
        int status;
        void **place = wanted[index].place;
        if (get(wanted[index].name, place, wanted[index].version, 0, &status) != 0 || *place == NULL)
            return false;
    }
    return true;
}

// ---- the model: what a step launches, by name ----

static const char *const kernels[] = {"embedding_20us", "layernorm_10us", "gemm_120us",      "gelu_15us",
                                      "softmax_30us",   "loss_25us",      "gemm_grad_240us", "adam_60us"};
enum { EMBEDDING, LAYERNORM, GEMM, GELU, SOFTMAX, LOSS, GEMM_GRAD, ADAM, KERNELS };

static const int step_kernels[] = {
    EMBEDDING, LAYERNORM, GEMM, SOFTMAX, GEMM, LAYERNORM, GEMM, GELU, GEMM, LAYERNORM, GEMM, SOFTMAX, GEMM,
    LOSS,      GEMM_GRAD, GEMM_GRAD, GEMM_GRAD, GEMM_GRAD, ADAM, ADAM,
};
enum { STEP_KERNELS = sizeof step_kernels / sizeof step_kernels[0] };

enum { INPUT_BYTES = 4 << 20, WEIGHT_BYTES = 64 << 20, CACHE_BYTES = 6 << 20, CACHES = 64 };
// Every so many steps the loop's cache grows, and the weights are written out.
enum { GROW_STEPS = 5, CHECKPOINT_STEPS = 80 };

struct training {
    function kernel[KERNELS];
    stream stream;
    device_pointer weights, input, cache[CACHES];
    int caches;
    char *host_input, *host_weights;
};

static void prepare(struct training *training)
{
    module loaded;
    char *ptx = ptx_module(kernels, KERNELS);
    CHECK(cu.module_load(&loaded, ptx));
    free(ptx);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        CHECK(cu.module_function(&training->kernel[kernel], loaded, kernels[kernel]));
    CHECK(cu.stream_create(&training->stream, 1)); // non-blocking
    CHECK(cu.alloc(&training->weights, WEIGHT_BYTES));
    CHECK(cu.alloc(&training->input, INPUT_BYTES));
    CHECK(cu.set_async(training->weights, 0, WEIGHT_BYTES, training->stream));
    training->host_input = calloc(1, INPUT_BYTES);
    training->host_weights = calloc(1, WEIGHT_BYTES);
    REQUIRE(training->host_input != NULL && training->host_weights != NULL);
}

// Reading and decoding the next batch, while the GPU has nothing to do.
static void load_batch(struct training *training, int step)
{
    memset(training->host_input, step, INPUT_BYTES);
    pause_us(step % 25 == 0 ? 20000 : 6000);
}

static void train_step(struct training *training, int step)
{
    float loss;
    load_batch(training, step);
    CHECK(cu.copy_in(training->input, training->host_input, INPUT_BYTES));
    for (int launch = 0; launch < STEP_KERNELS; launch++) {
        void *arguments[] = {&training->input};
        CHECK(cu.launch(training->kernel[step_kernels[launch]], 8, 1, 1, 128, 1, 1, 0, training->stream, arguments, NULL));
    }
    CHECK(cu.copy_out_async(&loss, training->weights, sizeof loss, training->stream));
    CHECK(cu.stream_sync(training->stream));
    if (step % GROW_STEPS == 0 && training->caches < CACHES)
        CHECK(cu.alloc(&training->cache[training->caches++], CACHE_BYTES));
    if (step % CHECKPOINT_STEPS == CHECKPOINT_STEPS - 1)
        CHECK(cu.copy_out(training->host_weights, training->weights, WEIGHT_BYTES));
}

static void finish(struct training *training)
{
    for (int cache = 0; cache < training->caches; cache++)
        CHECK(cu.free(training->cache[cache]));
    CHECK(cu.free(training->input));
    CHECK(cu.free(training->weights));
    CHECK(cu.stream_destroy(training->stream));
    free(training->host_input);
    free(training->host_weights);
}

int main(int argc, char **argv)
{
    bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
    int steps = argc > 1 && !check ? atoi(argv[1]) : 200, devices = 0, device = 0;
    if (!find_driver() || cu.init(0) != 0 || cu.device_count(&devices) != 0 || devices == 0) {
        fprintf(stderr, "demo: no GPU with a driver of CUDA 12 or newer here\n");
        return 1;
    }
    if (check)
        return 0;
    char name[256] = "";
    context context;
    CHECK(cu.device_get(&device, 0));
    CHECK(cu.device_name(name, sizeof name, device));
    CHECK(cu.primary_retain(&context, device));
    CHECK(cu.set_current(context));
    struct training training = {0};
    prepare(&training);
    uint64_t start = now_ns();
    for (int step = 0; step < steps; step++)
        train_step(&training, step);
    printf("%d steps on %s: %.1f ms a step\n", steps, name, steps ? (double)(now_ns() - start) / 1e6 / steps : 0.0);
    finish(&training);
    CHECK(cu.primary_release(device));
    return 0;
}
