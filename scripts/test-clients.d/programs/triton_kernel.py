"""Triton without PyTorch: anything with a type and an address is a tensor to it. Its launcher is compiled by gcc at run
time."""
import ctypes
import json

import triton
import triton.language as tl

ROUNDS, COUNT, BLOCK = 10, 1 << 12, 256


@triton.jit
def add_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


cuda = ctypes.CDLL("libcuda.so.1")
triton.runtime.driver.active.set_current_device(0)


class Tensor:
    """Device memory of 32-bit floats."""

    dtype = "float32"

    def __init__(self):
        self.address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(4 * COUNT)) == 0

    def data_ptr(self):
        return self.address.value


x, y = Tensor(), Tensor()
for _ in range(ROUNDS):
    add_kernel[(COUNT // BLOCK,)](x, y, COUNT, BLOCK=BLOCK)  # launches
assert cuda.cuCtxSynchronize() == 0
for tensor in (x, y):
    assert cuda.cuMemFree_v2(tensor.address) == 0
calls = {"cuMemAlloc": 2, "cuMemFree": 2, "cuCtxSynchronize": 1}
print(json.dumps({"at_least": {"launches": ROUNDS}, "kernels": ["add_kernel"], "calls": calls}))
