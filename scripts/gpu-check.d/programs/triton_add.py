"""A Triton kernel, launched again and again."""
import steady

import torch
import triton
import triton.language as tl

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")


@triton.jit
def add_kernel(x_pointer, y_pointer, out_pointer, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(x_pointer + at, mask=inside) + tl.load(y_pointer + at, mask=inside)
    tl.store(out_pointer + at, total, mask=inside)


COUNT, BLOCK = 1 << 20, 1024
x, y = torch.rand(COUNT, device="cuda"), torch.rand(COUNT, device="cuda")
out = torch.empty_like(x)


def step():
    add_kernel[(COUNT // BLOCK,)](x, y, out, COUNT, BLOCK=BLOCK)


packages = ["torch", "triton"]
steady.measure("triton_add", step, torch.cuda.synchronize, packages, steps=100, kernels={"add_kernel": 1}, launches=1)
