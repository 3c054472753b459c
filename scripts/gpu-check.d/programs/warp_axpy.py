"""A Warp kernel, launched again and again."""
import steady

import warp

warp.config.quiet = True
warp.init()
if not warp.is_cuda_available():
    steady.skip("warp sees no GPU")


@warp.kernel
def axpy(x: warp.array(dtype=float), y: warp.array(dtype=float)):
    at = warp.tid()
    y[at] = y[at] + 0.5 * x[at]


COUNT = 1 << 20
x, y = warp.ones(COUNT, dtype=float, device="cuda"), warp.zeros(COUNT, dtype=float, device="cuda")


def step():
    warp.launch(axpy, dim=COUNT, inputs=[x, y], device="cuda")


steady.measure("warp_axpy", step, warp.synchronize, ["warp-lang"], steps=100, launches=1)
