// What a launch's tracepoint has: ten fields, as many as a launch's record of the agent has that differ from call to call.
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER gpuspy_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./tracepoint_rate.h"

#if !defined(TRACEPOINT_RATE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINT_RATE_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(gpuspy_bench, launch,
    LTTNG_UST_TP_ARGS(uint64_t, correlation, const void *, function, const uint32_t *, grid, const uint32_t *, block, uint32_t,
        shared, const void *, stream),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, correlation, correlation)
        lttng_ust_field_integer_hex(uint64_t, function, (uintptr_t)function)
        lttng_ust_field_integer(uint32_t, grid_x, grid[0]) lttng_ust_field_integer(uint32_t, grid_y, grid[1])
        lttng_ust_field_integer(uint32_t, grid_z, grid[2]) lttng_ust_field_integer(uint32_t, block_x, block[0])
        lttng_ust_field_integer(uint32_t, block_y, block[1]) lttng_ust_field_integer(uint32_t, block_z, block[2])
        lttng_ust_field_integer(uint32_t, shared, shared)
        lttng_ust_field_integer_hex(uint64_t, stream, (uintptr_t)stream)))

#endif

#include <lttng/tracepoint-event.h>
