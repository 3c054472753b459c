"""Launches two kernels on the simulated GPU, the second of which fails, and prints the lines of the calls."""

import ctypes
import json
import sys

driver = ctypes.CDLL("libcuda.so.1")
driver.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3

PTX = b".visible .entry works_20us() { ret; } .visible .entry asserts_fault710_1000ms() { ret; }"


def line():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def launched(function):
    return driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None), line()


def waited():
    return driver.cuCtxSynchronize(), line()


def main():
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    functions = [ctypes.c_void_p(), ctypes.c_void_p()]
    for function, name in zip(functions, (b"works_20us", b"asserts_fault710_1000ms")):
        assert driver.cuModuleGetFunction(ctypes.byref(function), module, name) == 0
    assert launched(functions[0])[0] == 0 and waited()[0] == 0
    result, launch = launched(functions[1])
    assert result == 0
    result, wait = waited()
    assert result == 710
    print(json.dumps({"launch": launch, "wait": wait}))


main()
