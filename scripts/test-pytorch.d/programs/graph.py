"""A training step captured into a CUDA graph and replayed, with other work between the replays; and a callable made of
graphs."""
import account

import torch
from torch import nn

REPLAYS = 20
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(32, 64, device="cuda")


def train():
    optimizer.zero_grad(set_to_none=True)
    nn.functional.mse_loss(model(batch), batch).backward()
    optimizer.step()


# As PyTorch's documentation requires: a few steps on a side stream before the capture.
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        train()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    train()
for _ in range(REPLAYS):
    batch.mul_(1.0)
    graph.replay()
torch.cuda.synchronize()

layer = torch.cuda.make_graphed_callables(nn.Linear(64, 64).cuda(), (batch,))
for _ in range(REPLAYS):
    layer(batch).sum().backward()

copies = torch.cuda.CUDAGraph()
twin, zeros = torch.empty_like(batch), torch.empty_like(batch)
with torch.cuda.graph(copies, pool=graph.pool()):
    twin.copy_(batch)
    zeros.zero_()
for _ in range(REPLAYS):
    copies.replay()

# A replay of the step, the layer forward and backward, and the copies.
account.print_own_account(launches=REPLAYS, captured=10, graphs=4 * REPLAYS, in_graphs=REPLAYS * 10)
