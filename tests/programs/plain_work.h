// Some plain work, for programs that test something other than the work itself.
#pragma once
#include "driver.h"

enum { PLAIN_LAUNCHES = 200 };

static inline void plain_work(void)
{
    start_cuda();
    CUfunction kernel = load_kernel("plain_10us");
    CUstream stream = new_stream();
    CUdeviceptr block;
    CHECK(cuMemAlloc(&block, 1 << 20));
    for (int launched = 0; launched < PLAIN_LAUNCHES; launched++) {
        launch(kernel, stream);
        if (launched % 20 == 19)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemFree(block));
    CHECK(cuStreamDestroy(stream));
}
