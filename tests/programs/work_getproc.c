// Does the known work (work.h) in a program that reaches the driver as a statically linked runtime does: by dlopen, one
// dlsym (cuGetProcAddress_v2), then every function by the cuGetProcAddress pointer that cuGetProcAddress itself
// returned.
#define FN(export)                                                                                                     \
    (*({                                                                                                               \
        static _Atomic(void *) place_;                                                                                 \
        void *function_ = atomic_load(&place_);                                                                        \
        if (function_ == NULL)                                                                                         \
            atomic_store(&place_, function_ = answer_named(#export));                                                  \
        (__typeof__(&export))function_;                                                                                \
    }))
static void *answer_named(const char *export);
#include "work_cu.h"

#include <dlfcn.h>

// The requests of CUDA 12.9's runtime, in its order, and the driver's answers.
static struct request {
    const char *name;
    int version;
    cuuint64_t flags;
    const char *export;
    void *answer;
} requests[] = {
#define R(name, version, flags, export) {name, version, flags, export, NULL},
#include "getproc_12_9.inc"
#undef R
};
enum { REQUESTS = sizeof requests / sizeof requests[0] };

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *answer_named(const char *export)
{
    for (int index = 0; index < REQUESTS; index++)
        if (requests[index].export != NULL && strcmp(requests[index].export, export) == 0 && requests[index].answer != NULL)
            return requests[index].answer;
    FAIL("the driver gave no %s", export);
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        FAIL("%s", dlerror());
    get_proc get = (get_proc)dlsym(driver, "cuGetProcAddress_v2");
    REQUIRE(get != NULL);
    for (int index = 0; index < REQUESTS; index++) {
        struct request *request = &requests[index];
        CUdriverProcAddressQueryResult status;
        CUresult result = get(request->name, &request->answer, request->version, request->flags, &status);
        if (result != CUDA_SUCCESS)
            request->answer = NULL;
        // The form of cuGetProcAddress with five arguments looks up the rest.
        if (strcmp(request->name, "cuGetProcAddress") == 0 && request->version >= 12000) {
            REQUIRE(request->answer != NULL);
            get = (get_proc)request->answer;
        }
    }
    work_on_driver("work_getproc");
    return 0;
}
