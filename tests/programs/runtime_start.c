// The start of CUDA 12's runtime, linked dynamically.
// link: -l:libcudart.so.12
#include "runtime_start.h"
