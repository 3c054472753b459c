"""A training loop as PyTorch recommends it: it copies its inputs from pinned memory with non_blocking=True, and reads no
loss until the end. The host runs hundreds of launches ahead of the GPU."""
import account

import torch
from torch import nn

STEPS, ROWS, CLASSES = 200, 64, 10
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, CLASSES)).cuda()
batches = [torch.randn(ROWS, 128).pin_memory() for _ in range(4)]
# The simulator's kernels compute nothing, so the labels must be valid without one.
labels = torch.zeros(ROWS, dtype=torch.long).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for step in range(STEPS):
    features = batches[step % len(batches)].to("cuda", non_blocking=True)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
loss.item()

ABSENT = ["sync-per-step", "device-wide-sync", "pageable-copies", "host-stall", "tiny-kernels", "allocation-churn"]
clean = {"steps": STEPS, "bound": "gpu", "absent": ABSENT + ["synchronous-copies", "memory-grows"]}
account.print_own_account(launches=STEPS * 12, kernels=["simcublas_Sgemm_v2_20us"], copies=STEPS, held_up=True, diagnosis=clean)
