// A plugin on CUDA 13's runtime.
// link: -l:libcudart.so.13
#define PLUGIN_RUN plugin_run_13
#include "plugin.h"
