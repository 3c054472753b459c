"""torch.compile: training steps whose kernels Inductor writes for Triton and benchmarks, the same model replayed as
CUDA graphs, and a Triton kernel launched by hand."""
import account

import torch
import triton
import triton.language as tl
from torch import nn

STEPS, REPLAYS, COUNT, BLOCK = 3, 5, 1 << 12, 256


@triton.jit
def add_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


x, y = torch.ones(COUNT, device="cuda"), torch.ones(COUNT, device="cuda")  # launches
for _ in range(STEPS):
    add_kernel[(COUNT // BLOCK,)](x, y, COUNT, BLOCK=BLOCK)  # launches

model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(32, 64, device="cuda")  # launches
compiled = torch.compile(model)
for _ in range(STEPS):
    optimizer.zero_grad()
    nn.functional.mse_loss(compiled(batch), batch).backward()  # launches, backward
    optimizer.step()  # launches

replayed = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    # The first call runs the step, the second captures it, and later ones replay it.
    for _ in range(2 + REPLAYS):
        torch.compiler.cudagraph_mark_step_begin()
        replayed(batch)  # launches
torch.cuda.synchronize()
account.print_account(
    kernels=["add_kernel", "triton_per_fused_gelu_native_layer_norm_0"],
    launches=STEPS * 12,
    graphs=REPLAYS,
    in_graphs=3 * REPLAYS,
)
