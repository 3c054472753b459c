// A training loop with the ranges that PyTorch pushes inside torch.autograd.profiler.emit_nvtx(record_shapes=True): operators
// that call operators, a record_function of the program, and a backward pass in a thread of its own. Their launches run kernels
// named after them. A process with a rank reduces gradients among all, too. Argument: the number of steps (default 12). Prints the
// numbers of steps, of operators and of launches.
// link: -l:libcuda.so.1 -lnvtxuser
#include "driver.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static CUfunction addmm, mm, reduce, sgd, copied;
static CUstream stream;
static pthread_barrier_t handed_over;
static int steps, operators;
static unsigned op_id, seq;

static void push(const char *form, unsigned first, unsigned second, unsigned third)
{
    char text[200];
    snprintf(text, sizeof text, form, first, second, third);
    nvtxRangePushA(text);
}

static void forward(void)
{
    push("aten::linear, op_id = %u, sizes = [[64, 128], [256, 128], [256]]", ++op_id, 0, 0);
    push("aten::t, seq = %u, op_id = %u, sizes = [[256, 128]], input_op_ids = [(0,-1)]", seq, op_id + 1, 0);
    op_id++;
    nvtxRangePop();
    push("aten::addmm, seq = %u, op_id = %u, sizes = [[256], [64, 128], [128, 256], [], []], input_op_ids = [(0,-1), (%u,0)]", ++seq,
         op_id + 1, op_id);
    op_id++;
    launch(addmm, stream);
    nvtxRangePop();
    nvtxRangePop();
    operators += 3;
}

static void *backward(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    for (int step = 0; step < steps; step++) {
        pthread_barrier_wait(&handed_over);
        push("autograd::engine::evaluate_function: AddmmBackward0, op_id = %u", ++op_id, 0, 0);
        push("AddmmBackward0, seq = %u, op_id = %u, sizes = [[64, 256]]", seq, op_id + 1, 0);
        push("aten::mm, op_id = %u, sizes = [[256, 64], [64, 128]], input_op_ids = [(%u,0), (0,-1)]", op_id + 2, op_id, 0);
        op_id += 2;
        launch(mm, stream);
        nvtxRangePop();
        nvtxRangePop();
        nvtxRangePop();
        operators += 3;
        pthread_barrier_wait(&handed_over);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? atoi(argv[1]) : 12;
    start_cuda();
    addmm = load_kernel("addmm_60us"), mm = load_kernel("mm_40us");
    sgd = load_kernel("sgd_20us"), copied = load_kernel("gather_10us");
    reduce = load_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL_50us");
    bool has_rank = getenv("RANK") != NULL;
    stream = new_stream();
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    pthread_t thread;
    pthread_barrier_init(&handed_over, NULL, 2);
    pthread_create(&thread, NULL, backward, context);
    for (int step = 0; step < steps; step++) {
        forward();
        pthread_barrier_wait(&handed_over);
        pthread_barrier_wait(&handed_over);
        if (has_rank) {
            push("nccl:all_reduce, op_id = %u, sizes = [[256, 128]]", ++op_id, 0, 0);
            launch(reduce, stream);
            nvtxRangePop();
            operators++;
        }
        push("Optimizer.step#SGD.step, op_id = %u", ++op_id, 0, 0);
        launch(sgd, stream);
        nvtxRangePop();
        launch(copied, stream);
        CHECK(cuStreamSynchronize(stream));
    }
    pthread_join(thread, NULL);
    printf("{\"program\":\"operators\",\"steps\":%d,\"operators\":%d,\"launches\":%d}\n", steps, operators, (4 + has_rank) * steps);
    return 0;
}
