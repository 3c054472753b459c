"""A kernel that CuPy generates, and one from source."""
import steady

import cupy

try:
    cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError as error:
    steady.skip(f"cupy: {error}")

SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) y[at] += 0.5f * x[at];
}"""
axpy = cupy.RawKernel(SOURCE, "axpy")
COUNT = 1 << 20
x, y = cupy.ones(COUNT, dtype=cupy.float32), cupy.zeros(COUNT, dtype=cupy.float32)


def step():
    axpy((COUNT // 256,), (256,), (x, y, cupy.int32(COUNT)))
    cupy.multiply(y, cupy.float32(0.5), out=y)


def packages():
    import importlib.metadata

    names = (distribution.metadata["Name"] for distribution in importlib.metadata.distributions())
    return sorted({name for name in names if name and name.lower().startswith("cupy")})


steady.measure("cupy_axpy", step, cupy.cuda.Device().synchronize, packages(), steps=100, launches=2)
