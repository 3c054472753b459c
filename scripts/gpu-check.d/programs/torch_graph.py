"""A training step captured into a CUDA graph and replayed, with work outside of it between the replays."""
import steady

import torch
from torch import nn

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = torch.randn(128, 512, device="cuda")


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


def step():
    batch.mul_(1.0)
    graph.replay()


steady.measure("torch_graph", step, torch.cuda.synchronize, ["torch"])
