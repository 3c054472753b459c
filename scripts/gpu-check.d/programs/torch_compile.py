"""Training steps of a model under torch.compile(mode="reduce-overhead"), which replays CUDA graphs."""
import steady

import torch
from torch import nn

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 256)).cuda()
compiled = torch.compile(model, mode="reduce-overhead")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(128, 256, device="cuda")


def step():
    torch.compiler.cudagraph_mark_step_begin()
    optimizer.zero_grad()
    nn.functional.mse_loss(compiled(batch), batch).backward()
    optimizer.step()


steady.measure("torch_compile", step, torch.cuda.synchronize, ["torch"])
