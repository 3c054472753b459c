"""A typical training loop: a DataLoader with workers and pinned memory, non-blocking copies, and a loss that is read
every few steps."""
import steady

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
torch.manual_seed(1)
BATCH, LOOK_EVERY = 64, 8


class Images(Dataset):
    """A dataset of the requested length; each item is a random picture with a label."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, at):
        return torch.full((3, 32, 32), at % 7 / 7.0), at % 10


model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 16 * 16, 10)
).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss()
loader = iter(DataLoader(Images(), batch_size=BATCH, num_workers=2, pin_memory=True))
steps = 0


def step():
    global steps
    images, labels = next(loader)
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    steps += 1
    if steps % LOOK_EVERY == 0:
        loss.item()


steady.measure("torch_loader", step, torch.cuda.synchronize, ["torch"])
