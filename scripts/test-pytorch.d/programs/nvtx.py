"""NVTX ranges, by hand and for every operator, around a training step."""
import account

import torch
from torch import nn

STEPS = 5
model = nn.Linear(32, 32).cuda()
batch = torch.ones(8, 32, device="cuda")
with torch.cuda.profiler.profile(), torch.autograd.profiler.emit_nvtx():
    for step in range(STEPS):
        with torch.cuda.nvtx.range(f"step {step}"):
            torch.cuda.nvtx.range_push("forward")
            loss = model(batch).sum()
            torch.cuda.nvtx.range_pop()
            handle = torch.cuda.nvtx.range_start("backward")
            loss.backward()
            torch.cuda.nvtx.range_end(handle)
        torch.cuda.nvtx.mark("stepped")
account.print_own_account(launches=STEPS * 4)
