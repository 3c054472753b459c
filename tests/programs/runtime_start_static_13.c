// The start of CUDA 13's own runtime, linked in.
// link: DOWNLOADS/cuda-13/lib/libcudart_static.a -lrt -ldl
#include "runtime_start.h"
