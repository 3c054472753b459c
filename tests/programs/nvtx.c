// Uses NVTX in every form: nested ranges, domains, registered and wide strings, ranges that another thread ends,
// markers, payloads, a text that is too long, ranges before CUDA's first call, and pops without a range. Launches run
// inside, with kernels named after the range that they are in. Prints the number of launches.
// link: -l:libcuda.so.1 -lnvtxuser
#include "driver.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <wchar.h>

void library_range(void (*work)(void));

static CUfunction kernel[6];
static CUstream stream;

static void in_library(void)
{
    launch(kernel[5], stream);
}

static void *end_it(void *id)
{
    CUdevice device;
    CUcontext context;
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    launch(kernel[4], stream);
    nvtxRangeEnd(*(nvtxRangeId_t *)id);
    return NULL;
}

static nvtxEventAttributes_t attributes(void)
{
    nvtxEventAttributes_t given = {0};
    given.version = NVTX_VERSION;
    given.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    return given;
}

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
    nvtxStringHandle_t decode = nvtxDomainRegisterStringA(domain, "decode");
    nvtxRangePushA("before CUDA");
    start_cuda();
    static const char *const names[] = {"step_20us", "forward_10us", "backward_10us", "decode_5us", "across_5us", "library_5us"};
    for (int n = 0; n < 6; n++)
        kernel[n] = load_kernel(names[n]);
    stream = new_stream();
    nvtxRangePop();

    for (int step = 0; step < 3; step++) {
        nvtxRangePushA("step");
        launch(kernel[0], stream);
        nvtxEventAttributes_t forward = attributes();
        forward.colorType = NVTX_COLOR_ARGB;
        forward.color = 0xff00ff00;
        forward.category = 7;
        forward.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        forward.payload.ullValue = 42;
        forward.messageType = NVTX_MESSAGE_TYPE_ASCII;
        forward.message.ascii = "forward";
        nvtxRangePushEx(&forward);
        launch(kernel[1], stream);
        launch(kernel[1], stream);
        nvtxRangePop();
        nvtxRangePushW(L"rückwärts \U0001F600");
        launch(kernel[2], stream);
        nvtxRangePop();
        nvtxEventAttributes_t decoding = attributes();
        decoding.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        decoding.message.registered = decode;
        nvtxDomainRangePushEx(domain, &decoding);
        launch(kernel[3], stream);
        nvtxRangePop(); // ends the step's range, not the domain's
        launch(kernel[3], stream);
        nvtxDomainRangePop(domain);
        nvtxMarkA("end of step");
    }
    nvtxRangeId_t across = nvtxRangeStartA("across threads");
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_it, &across) == 0);
    pthread_join(thread, NULL);
    nvtxRangePop(); // no range is open
    library_range(in_library);
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    nvtxMarkA(text);
    nvtxMarkA(NULL);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"program\":\"nvtx\",\"pid\":%d,\"launches\":%d}\n", (int)getpid(), 3 * 6 + 2);
    return 0;
}
