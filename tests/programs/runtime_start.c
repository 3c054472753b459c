// Starts CUDA 12's runtime, linked dynamically (runtime_start.h).
// link: -l:libcudart.so.12
#include "runtime_start.h"
