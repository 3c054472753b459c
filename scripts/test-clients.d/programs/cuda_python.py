"""NVIDIA's Python packages: cuda.core, and the plain driver API of cuda.bindings. Kernels are PTX."""
import json

from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

ROUNDS, BYTES = 10, 1 << 16
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale_5us(.param .u64 x) { ret; }
.visible .entry shift_7us(.param .u64 x) { ret; }
"""

device = Device()
device.set_current()
stream = device.create_stream()
buffer = device.allocate(BYTES, stream=stream)
scale = ObjectCode.from_ptx(PTX).get_kernel("scale_5us")
for _ in range(ROUNDS):
    launch(stream, LaunchConfig(grid=16, block=128), scale, buffer)
capture = device.create_graph_builder().begin_building()
for _ in range(3):
    launch(capture, LaunchConfig(grid=16, block=128), scale, buffer)
graph = capture.end_building().complete()
for _ in range(ROUNDS):
    graph.launch(stream)
stream.sync()
buffer.close(stream)


def call(function, *arguments):
    result, *answers = function(*arguments)
    assert result == driver.CUresult.CUDA_SUCCESS, (function, result)
    return answers[0] if answers else None


module = call(driver.cuModuleLoadData, PTX)
shift = call(driver.cuModuleGetFunction, module, b"shift_7us")
block = call(driver.cuMemAlloc, BYTES)
host = bytearray(BYTES)
for _ in range(ROUNDS):
    call(driver.cuMemcpyHtoD, block, bytes(host), BYTES)
    call(driver.cuMemsetD8, block, 1, BYTES)
    call(driver.cuLaunchKernel, shift, 4, 1, 1, 64, 1, 1, 0, 0, ((block,), (None,)), 0)
    call(driver.cuMemcpyDtoH, host, block, BYTES)
call(driver.cuCtxSynchronize)
call(driver.cuMemFree, block)
print(
    json.dumps(
        {
            "at_least": {"launches": 2 * ROUNDS, "captured": 3, "graphs": ROUNDS, "in_graphs": 3 * ROUNDS, "allocations": 2},
            "kernels": ["scale_5us", "shift_7us"],
            "calls": {"cuMemcpyHtoD": ROUNDS, "cuMemcpyDtoH": ROUNDS, "cuMemsetD8": ROUNDS, "cuCtxSynchronize": 1, "cuMemAlloc": 1},
        }
    )
)
