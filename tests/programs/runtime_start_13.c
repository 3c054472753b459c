// The start of CUDA 13's runtime, linked dynamically.
// link: -l:libcudart.so.13
#include "runtime_start.h"
