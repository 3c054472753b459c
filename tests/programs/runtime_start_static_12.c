// The start of CUDA 12.9's own runtime, linked in: nvcc's default.
// link: DOWNLOADS/cuda-12.9/lib/libcudart_static.a DOWNLOADS/cuda-12.9/lib/libculibos.a -lrt -ldl
#include "runtime_start.h"
