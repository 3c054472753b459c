"""A training loop without a GPU's arithmetic: 30 layers of two launches each, STEPS times (first argument). Prints the number of
launches."""

import ctypes
import json
import sys

STEPS, LAYERS = int(sys.argv[1]), 30
driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.12")
driver.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
assert runtime.cudaFree(None) == 0  # Creates the context.
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuModuleLoadData(ctypes.byref(module), b".visible .entry work_1us() { ret; }") == 0
assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"work_1us") == 0


def launch():
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0


source = "\n".join(f"def layer{at}():\n    launch()\n    launch()" for at in range(LAYERS))
model = {"launch": launch}
exec(compile(source, "model.py", "exec"), model)
layers = [model[f"layer{at}"] for at in range(LAYERS)]
for step in range(STEPS):
    for layer in layers:
        layer()
    if step % 50 == 0:
        assert driver.cuCtxSynchronize() == 0
assert driver.cuCtxSynchronize() == 0
print(json.dumps({"launches": STEPS * LAYERS * 2}))
