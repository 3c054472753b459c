"""A Numba kernel, launched again and again."""
import steady

import numpy
from numba import cuda

if not cuda.is_available():
    steady.skip("numba sees no GPU")


@cuda.jit
def add(x, y):
    at = cuda.grid(1)
    if at < y.size:
        y[at] += x[at]


COUNT = 1 << 18
x, y = cuda.to_device(numpy.ones(COUNT)), cuda.to_device(numpy.zeros(COUNT))


def step():
    add[COUNT // 256, 256](x, y)


steady.measure("numba_add", step, cuda.synchronize, ["numba"], steps=100, launches=1)
