"""Batches copied from ordinary memory, and the remedy: pin_memory() and non_blocking=True. `pageable.py faulty` or
`pageable.py fixed`."""
import sys

import account

import torch
from torch import nn

STEPS, ROWS, FEATURES, CLASSES = 60, 4096, 1024, 10
faulty = sys.argv[1] == "faulty"
model = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, CLASSES)).cuda()
batches = [torch.zeros(ROWS, FEATURES) for _ in range(4)]
if not faulty:
    batches = [batch.pin_memory() for batch in batches]
# Kernels compute nothing here, so a label must be correct without one.
labels = torch.zeros(ROWS, dtype=torch.long).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for step in account.timed(range(STEPS)):
    features = batches[step % len(batches)].to("cuda", non_blocking=not faulty)  # pageable-copies
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
loss.item()

slow = {"findings": ["pageable-copies"], "first": "pageable-copies", "framework": "pin_memory=True", "bound": "copies", "absent": ["sync-per-step"]}
account.print_own_account(
    copies=STEPS, diagnosis={"steps": STEPS, **(slow if faulty else {"absent": ["pageable-copies"]})}
)
