// Starts CUDA 13's runtime, linked dynamically (runtime_start.h).
// link: -l:libcudart.so.13
#include "runtime_start.h"
