// Starts NVIDIA's own CUDA 13 runtime, linked statically (runtime_start.h).
// only: x86_64
// link: DOWNLOADS/cuda-13/lib/libcudart_static.a -lrt -ldl
#include "runtime_start.h"
