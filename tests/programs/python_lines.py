"""Calls CUDA from functions with one such line each, and prints the number of each function's line."""

import ctypes
import json
import time

driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.12")
for function, arguments in (
    (runtime.cudaMemcpy, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
    (runtime.cudaMalloc, [ctypes.c_void_p, ctypes.c_size_t]),
    (driver.cuLaunchKernel, [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3),
):
    function.argtypes = arguments

PTX = b".visible .entry work_300us() { ret; } .visible .entry work_200us() { ret; }"


def line_of(function):
    """The line of the only call in a function: the last one."""
    code = function.__code__
    return max(line for line in lines_of(code))


def lines_of(code):
    import dis

    return [line for _, line in dis.findlinestarts(code) if line]


def allocates():
    block = ctypes.c_void_p()
    return [block, runtime.cudaMalloc(ctypes.byref(block), 1 << 20)][0]


def copies(block, host):
    for _ in range(7): assert runtime.cudaMemcpy(block, host, 1 << 16, 1) == 0


def launches(function):
    for _ in range(5): assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0


def launch_once(function):
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0


def nested(depth, function):
    return nested(depth - 1, function) if depth else launches(function)


def waits():
    assert runtime.cudaDeviceSynchronize() == 0


def captures(stream, function):
    for _ in range(3): assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, None) == 0


def replays(graph, stream):
    for _ in range(20): assert driver.cuGraphLaunch(graph, stream) == 0


def captured(function):
    """An executable graph of three launches, and the stream on which they were captured."""
    stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
    captures(stream, function)
    assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)) == 0
    return executable, stream


def main():
    blocks = [allocates() for _ in range(3)]
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"work_300us") == 0
    copies(blocks[0], bytes(1 << 16))
    time.sleep(0.1)
    nested(20, function)
    waits()
    in_graph = ctypes.c_void_p()
    assert driver.cuModuleGetFunction(ctypes.byref(in_graph), module, b"work_200us") == 0
    launch_once(in_graph)
    replays(*captured(in_graph))
    waits()
    functions = allocates, copies, launches, waits, captures, replays
    print(json.dumps({function.__name__: line_of(function) for function in functions}))


main()
