"""drjit: kernels that are compiled from arrays' operations, by its own compiler core, which opens the driver by dlopen."""
import json

import drjit as dr
from drjit.cuda import Float, UInt32

STEPS = 20
SIZE = 10_000

total = dr.zeros(Float, SIZE)
index = dr.arange(UInt32, SIZE)
for step in range(STEPS):
    total = dr.sqrt(total + Float(index) + step)
    dr.eval(total)
kept = dr.gather(Float, total, dr.arange(UInt32, SIZE // 2) * 2)
dr.eval(kept)
dr.sync_thread()
value = kept[7]
summed = dr.sum(total)
dr.eval(summed)
dr.sync_thread()
print(json.dumps({"at_least": {"launches": STEPS, "allocations": 2, "copies": 1, "syncs": 1}}))
