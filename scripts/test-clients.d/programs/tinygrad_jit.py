"""tinygrad, which writes its own PTX: kernels one by one, and a TinyJit function that becomes a CUDA graph.

Needs DEV=CUDA:PTX in the environment.
"""
import json

from tinygrad import Device, Tensor, TinyJit

STEPS = 12


@TinyJit
def step(x):
    return ((x * 2).contiguous().sum(axis=0) + 1).contiguous().realize()  # launches


x = Tensor.ones(64, 64).contiguous().realize()  # launches
for at in range(STEPS):
    step(x)  # launches
    # Another buffer each time, so that the graph's node parameters are set again.
    x = Tensor.full((64, 64), float(at)).contiguous().realize()  # launches
(x + 1).tolist()  # launches
Device[Device.DEFAULT].synchronize()
print(json.dumps({"at_least": {"launches": STEPS, "graphs": STEPS - 3, "in_graphs": 2 * (STEPS - 3), "copies": 1, "syncs": 1}}))
