"""A loop that keeps each step's output in a list, and its remedy: it keeps a number of it. `growing.py faulty` or
`growing.py fixed`."""
import sys

import account

import torch
from torch import nn

STEPS, ROWS = 120, 1024
faulty = sys.argv[1] == "faulty"
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).to("cuda")
features = torch.zeros(ROWS, 1024, device="cuda")

kept = []
with torch.no_grad():
    for _ in range(STEPS):
        output = model(features)
        kept.append(output if faulty else output.mean())
torch.stack([each.sum() for each in kept]).sum().item()
slow = {"findings": ["memory-grows"], "framework": "loss.detach()"}
account.print_own_account(diagnosis={"steps": STEPS, **(slow if faulty else {"absent": ["memory-grows"]})})
