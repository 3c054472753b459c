"""Runs the operations: kernels of one PTX module, on the thread's current stream."""
import ctypes
import os
import sys
import threading

import torch

sys.path.append(os.path.join(torch.TESTS, "..", "..", "gpu-probe.d"))

import cuda as driver

# Mangled, as C++ names are.
ELEMENTWISE = "_Z11elementwisev"
KERNELS = (ELEMENTWISE, "gemm_20us", "reduce_5us", "optimizer_5us", "nccl_10us", "add_kernel")
PTX = driver._module("7.0", "sm_70", "".join(f".visible .entry {name}()\n{{\n    ret;\n}}\n" for name in KERNELS))
BYTES = 4096


class Device:
    """The context with its kernels, created at the first use."""

    def __init__(self):
        self.context = driver.Context()
        module = self.context.load(PTX)
        self.functions = {name: self.context.get_function(module, name.encode()) for name in KERNELS}
        self.memory = self.context.driver.out(ctypes.c_uint64, "cuMemAlloc_v2", BYTES)
        self.host = self.context.driver.out(ctypes.c_void_p, "cuMemHostAlloc", BYTES, 0)


_lock, _local = threading.Lock(), threading.local()
_device = None


def device():
    global _device
    with _lock:
        if _device is None:
            _device = Device()
    _device.context.driver.call("cuCtxSetCurrent", _device.context.handle)
    return _device


def stream():
    return getattr(_local, "stream", 0)


def set_stream(handle):
    _local.stream = handle


def launch(name):
    at = device()
    at.context.launch(stream(), function=at.functions[name])


def copy(function):
    at = device()
    to, source = (at.memory, at.host) if function == "cuMemcpyHtoDAsync_v2" else (at.host, at.memory)
    at.context.driver.call(function, to, source, ctypes.c_size_t(BYTES), stream())


class Tensor:
    """Only where it is stored is known of it."""

    def __init__(self, device):
        self.device = device

    def cuda(self, non_blocking=False):
        copy("cuMemcpyHtoDAsync_v2")
        return Tensor("cuda")

    def cpu(self):
        copy("cuMemcpyDtoHAsync_v2")
        at = device()
        at.context.synchronize(stream())
        return Tensor("cpu")

    def item(self):
        self.cpu()
        return 0.0

    def backward(self):
        launch("gemm_20us")
        launch("reduce_5us")

    def mul_(self, _):
        launch(ELEMENTWISE)
        return self
