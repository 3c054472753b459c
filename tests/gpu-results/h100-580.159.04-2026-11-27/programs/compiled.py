"""torch.compile with CUDA graphs (mode="reduce-overhead"), and an optimizer that is not compiled."""
import os
import time

import torch
from torch import nn
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)) for _ in range(6)]).cuda()
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
@torch.compile(mode="reduce-overhead")
def forward(x):
    return nn.functional.mse_loss(model(x), x)
update = torch.compile(optimizer.step) if os.environ.get("COMPILED_STEP") else optimizer.step
x = torch.randn(64, 256, device="cuda")
for step in range(300):
    torch.compiler.cudagraph_mark_step_begin()
    loss = forward(x)
    loss.backward()
    update()
    optimizer.zero_grad()
    if step == 100:
        torch.cuda.synchronize()
        began = time.perf_counter()
    if step % 50 == 0:
        print(step, loss.item())
torch.cuda.synchronize()
print(f"{(time.perf_counter() - began) / 199 * 1e3:.3f} ms for a step")
