// Starts NVIDIA's own CUDA 13 runtime, linked statically (runtime_start.h).
// link: DOWNLOADS/cuda-13/lib/libcudart_static.a -lrt -ldl
#include "runtime_start.h"
