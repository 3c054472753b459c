"""Taichi, which loads its core with RTLD_DEEPBIND: kernels over fields and arrays, then the same with its own profiler, whose
events are recorded around each kernel."""
import json

import numpy
import taichi as ti

ROUNDS, COUNT = 10, 1 << 14


@ti.kernel
def scale(x: ti.template(), factor: ti.f32):
    for at in x:
        x[at] *= factor


@ti.kernel
def add(x: ti.template(), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for at in y:
        y[at] += x[at]


def work():
    x, y = ti.field(ti.f32, shape=COUNT), ti.ndarray(ti.f32, shape=COUNT)
    for _ in range(ROUNDS):
        scale(x, 2.0)
        add(x, y)
    ti.sync()
    x.from_numpy(numpy.ones(COUNT, numpy.float32))
    y.to_numpy()


for profiled in (False, True):
    ti.init(arch=ti.cuda, kernel_profiler=profiled)
    work()
scaled = ti.profiler.query_kernel_profiler_info(scale.__name__)
assert scaled.counter == ROUNDS, scaled
ti.reset()
at_least = {"launches": 4 * ROUNDS, "copies": 4, "sets": 2, "allocations": 4, "frees": 4, "syncs": 4 * ROUNDS}
# Taichi's name for a loop of a kernel: the kernel's name, the number of its definition and of its instance, and the
# loop's.
print(json.dumps({"at_least": at_least, "kernels": ["scale_c80_0_kernel_0_range_for", "add_c82_0_kernel_1_range_for"]}))
