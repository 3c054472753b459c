"""A data set whose items take long to read, with a DataLoader that reads them in the training's own thread; and the same
where they take no time. `slow_loader.py faulty` or `slow_loader.py fixed`."""
import sys
import time

import account

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS, ROWS, CLASSES = 100, 8, 10
faulty = sys.argv[1] == "faulty"


class Samples(Dataset):
    def __len__(self):
        return STEPS * ROWS

    def __getitem__(self, at):
        if faulty:
            # As long as a small image takes to be read and decoded.
            time.sleep(0.001)
        return torch.zeros(128), 0


model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, CLASSES)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for features, labels in account.timed(DataLoader(Samples(), batch_size=ROWS, num_workers=0, pin_memory=True)):
    features, labels = features.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)  # host-stall
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
loss.item()

slow = {"findings": ["host-stall"], "first": "host-stall", "framework": "DataLoader(num_workers", "bound": "host"}
account.print_own_account(
    copies=2 * STEPS, diagnosis={"steps": STEPS, **(slow if faulty else {"absent": ["host-stall"]})}
)
