// cuLaunchKernel's type, for objects that must not depend on CUDA's headers.
#pragma once

typedef int (*launch_kernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,
                             void **extra);

#define LAUNCH_PARAMETERS                                                                                              \
    void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,             \
        unsigned block_z, unsigned shared_bytes, void *stream, void **arguments, void **extra
#define LAUNCH_ARGUMENTS                                                                                               \
    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra
