// A plugin on CUDA 12's runtime.
// link: -l:libcudart.so.12
#define PLUGIN_RUN plugin_run_12
#include "plugin.h"
