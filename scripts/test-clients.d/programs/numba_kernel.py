"""Numba: a kernel compiled from Python, its arrays copied to the GPU and back."""
import json

import numpy
from numba import cuda

ROUNDS, COUNT = 10, 1 << 14


@cuda.jit
def add(x, y):
    at = cuda.grid(1)
    if at < y.size:
        y[at] += x[at]


@cuda.jit
def double(x):
    at = cuda.grid(1)
    if at < x.size:
        x[at] *= 2


x, y = cuda.to_device(numpy.ones(COUNT)), cuda.device_array(COUNT)
stream = cuda.stream()
for _ in range(ROUNDS):
    add[COUNT // 256, 256](x, y)  # launches
    double[COUNT // 256, 256, stream](x)  # launches
    y.copy_to_host()
# The launch itself copies host arrays to the GPU and back.
double[COUNT // 256, 256](numpy.ones(COUNT))  # launches
stream.synchronize()
cuda.synchronize()
print(json.dumps({"at_least": {"launches": 2 * ROUNDS + 1, "kernels": 2, "copies": ROUNDS + 3, "allocations": 3, "syncs": 2}}))
