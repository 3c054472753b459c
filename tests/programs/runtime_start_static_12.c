// Starts NVIDIA's own CUDA 12.9 runtime, linked statically as nvcc does by default (runtime_start.h).
// only: x86_64
// link: DOWNLOADS/cuda-12.9/lib/libcudart_static.a DOWNLOADS/cuda-12.9/lib/libculibos.a -lrt -ldl
#include "runtime_start.h"
