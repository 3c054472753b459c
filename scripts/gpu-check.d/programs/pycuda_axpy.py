"""A kernel from source, by PyCUDA, which is linked against the driver."""
import shutil

import steady

if not shutil.which("nvcc"):
    steady.skip("pycuda compiles with nvcc, which is not on PATH")
try:
    import pycuda.driver as cuda
except ImportError as error:
    steady.skip(f"pycuda: {error}")
try:
    import pycuda.autoinit  # noqa: F401
except (cuda.Error, RuntimeError) as error:
    steady.skip(f"pycuda: {error}")
import numpy
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void axpy(const float *x, float *y, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) y[at] += 0.5f * x[at];
}"""
COUNT = 1 << 20
axpy = SourceModule(SOURCE, cache_dir=False).get_function("axpy").prepare("PPi")
x, y = cuda.to_device(numpy.ones(COUNT, numpy.float32)), cuda.to_device(numpy.zeros(COUNT, numpy.float32))


def step():
    axpy.prepared_call((COUNT // 256, 1), (256, 1, 1), x, y, COUNT)


steady.measure("pycuda_axpy", step, cuda.Context.synchronize, ["pycuda"], steps=100, launches=1)
