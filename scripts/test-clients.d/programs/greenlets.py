"""greenlet: functions that take turns on one thread, each with a stack of its own, and launch kernels through ctypes."""
import ctypes
import json

from greenlet import greenlet

ROUNDS = 30
driver = ctypes.CDLL("libcuda.so.1")
driver.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
PTX = b".visible .entry work_5us() { ret; }"


def launch(kernel):
    return driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None)  # launches


def deep(depth, kernel):
    if depth:
        return deep(depth - 1, kernel)
    other.switch()
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0  # launches
    return 0


def producer(kernel):
    for at in range(ROUNDS):
        assert launch(kernel) == 0
        deep(at % 9, kernel)


def consumer(kernel):
    while True:
        assert driver.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, None, None) == 0  # launches
        first.switch()


device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"work_5us") == 0
first = greenlet(lambda: producer(kernel))
other = greenlet(lambda: consumer(kernel))
first.switch()
assert driver.cuCtxSynchronize() == 0
print(json.dumps({"at_least": {"launches": 3 * ROUNDS}, "calls": {"cuLaunchKernel": 3 * ROUNDS}}))
