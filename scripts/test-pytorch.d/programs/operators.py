"""Training with every operator marked by emit_nvtx; or, with a file as argument, the same on the CPU, recorded by torch.profiler."""
import contextlib
import sys

import torch
from torch import nn

STEPS = 8
file = sys.argv[1] if len(sys.argv) > 1 else None
device = "cpu" if file else "cuda"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(128, 256), nn.Linear(256, 10)

    def forward(self, features):
        hidden = self.first(features)
        hidden = torch.relu(hidden)
        return self.second(hidden)


def loss_of(model, features, labels):
    return nn.functional.cross_entropy(model(features), labels)


model = Model().to(device)
features = torch.randn(64, 128, device=device)
labels = torch.zeros(64, dtype=torch.long, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with contextlib.ExitStack() as stack:
    if file:
        cpu = [torch.profiler.ProfilerActivity.CPU]
        profile = stack.enter_context(torch.profiler.profile(activities=cpu, record_shapes=True, with_stack=True))
    else:
        stack.enter_context(torch.autograd.profiler.emit_nvtx(record_shapes=True))
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autograd.profiler.record_function("forward, and the loss"):
            loss = loss_of(model, features, labels)
        loss.backward()
        optimizer.step()
        loss.item()
if file:
    profile.export_chrome_trace(file)
