"""Launches from below ten frames of an installed package, so often as the argument says."""

import ctypes
import sys

driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.12")
driver.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
assert runtime.cudaFree(None) == 0  # Creates the context.
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuModuleLoadData(ctypes.byref(module), b".visible .entry work_1us() { ret; }") == 0
assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"work_1us") == 0
PACKAGE = """
def launches(frames, count):
    if frames > 1:
        return launches(frames - 1, count)
    for _ in range(count):
        launch(*arguments)
"""
package = {"launch": driver.cuLaunchKernel, "arguments": (function, 1, 1, 1, 1, 1, 1, 0, None, None, None)}
exec(compile(PACKAGE, "/x/lib/python3.11/site-packages/optim/adam.py", "exec"), package)
package["launches"](10, int(sys.argv[1]))
assert driver.cuCtxSynchronize() == 0
