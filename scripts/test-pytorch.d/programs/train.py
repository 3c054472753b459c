"""Training: linear layers, ReLU and cross-entropy, with SGD and with Adam, and the loss read at each step."""
import account

import torch
from torch import nn

STEPS, ROWS, CLASSES = 25, 64, 10
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, CLASSES)).cuda()
features = torch.randn(ROWS, 128, device="cuda")  # launches
# Kernels compute nothing here, so a label must be correct without one.
labels = torch.zeros(ROWS, dtype=torch.long).cuda()

for optimizer in (torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.optim.Adam(model.parameters())):
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)  # launches
        loss.backward()  # launches, backward
        optimizer.step()  # launches
        loss.item()

# Forward: two products, ReLU, log-softmax and the loss. Backward: as many, plus a product and a sum for each layer.
account.print_own_account(launches=2 * STEPS * 12, kernels=["simcublas_Sgemm_v2_20us"], copies=2 * STEPS, syncs=2 * STEPS)
