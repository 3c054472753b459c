"""Measures a launch from Python: from a stack of 2, 8 and 43 frames, over and over from one line, and from 5000 lines one after the
other. Prints the median host ns of each."""

import ctypes
import json
import statistics
import time

CHUNKS, LAUNCHES, LINES = 100, 500, 5000
driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.12")
driver.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
assert runtime.cudaFree(None) == 0  # Creates the context.
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuModuleLoadData(ctypes.byref(module), b".visible .entry work_1us() { ret; }") == 0
assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"work_1us") == 0
launch, arguments = driver.cuLaunchKernel, (function, 1, 1, 1, 1, 1, 1, 0, None, None, None)


def at_depth(depth):
    """Launches from a stack of `depth` frames above the module's, all of the same line."""
    if depth > 1:
        return at_depth(depth - 1)
    times = []
    for _ in range(CHUNKS):
        began = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            launch(*arguments)
        times.append((time.perf_counter_ns() - began) / LAUNCHES)
        driver.cuCtxSynchronize()
    return statistics.median(times)


names = {"launch": launch, "arguments": arguments}
exec(compile("def lines():\n" + "    launch(*arguments)\n" * LINES, "lines.py", "exec"), names)


def from_many_lines():
    times = []
    for _ in range(10):
        began = time.perf_counter_ns()
        names["lines"]()
        times.append((time.perf_counter_ns() - began) / LINES)
        driver.cuCtxSynchronize()
    return statistics.median(times)


said = {f"{depth} frames": at_depth(depth - 1) for depth in (2, 8, 43)}
print(json.dumps({**said, "5000 lines": from_many_lines()}))
