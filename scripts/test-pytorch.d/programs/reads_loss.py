"""A training loop that reads its running loss with .item() in each step, and its remedy: it is read once at the end.
`reads_loss.py faulty` or `reads_loss.py fixed`."""
import sys
import time

import account

import torch
from torch import nn

STEPS, ROWS, CLASSES = 150, 64, 10
# What a step computes besides, such as the line of its log, s of processor time. It makes the wait cost the same on a fast and on a slow host, and more than
# what other programs hold up the host for; the kernels of a step (scripts/test-pytorch.sh) take longer.
OTHER_WORK = 0.008
faulty = sys.argv[1] == "faulty"


def compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, CLASSES)).cuda()
batches = [torch.randn(ROWS, 128).pin_memory() for _ in range(4)]
# Kernels compute nothing here, so a label must be correct without one.
labels = torch.zeros(ROWS, dtype=torch.long).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

total = torch.zeros((), device="cuda")
for step in account.timed(range(STEPS)):
    features = batches[step % len(batches)].to("cuda", non_blocking=True)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
    total += loss.detach()
    if faulty:
        total.item()  # sync-per-step
    compute(OTHER_WORK)
total.item()

# The remedies must be in PyTorch's words.
slow = {"findings": ["sync-per-step"], "first": "sync-per-step", "framework": ".item()", "bound": "syncs"}
account.print_own_account(
    copies=STEPS,
    syncs=STEPS if faulty else 1,
    diagnosis={"steps": STEPS, "per_step": {"syncs": int(faulty)}, **(slow if faulty else {"absent": ["sync-per-step"]})},
)
