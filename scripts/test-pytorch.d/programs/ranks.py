"""Data-parallel training under torchrun: a process for each rank, with a GPU of its own; gradients are reduced by
gloo."""
import os

import account

import torch
from torch import distributed, nn

STEPS = 3
LOCAL = int(os.environ["LOCAL_RANK"])


def train():
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64).cuda(), device_ids=[LOCAL])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(32, 64, device="cuda")
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()


torch.cuda.set_device(LOCAL)
distributed.init_process_group("gloo")
train()
places = [torch.empty(2, dtype=torch.long) for _ in range(distributed.get_world_size())]
distributed.all_gather(places, torch.tensor([os.getpid(), os.getppid()]))
distributed.destroy_process_group()
if LOCAL == 0:
    # There is only one node, so the local rank is the rank.
    ranks = [
        {
            "pid": pid,
            "parent": parent,
            "rank": rank,
            "local_rank": rank,
            "world_size": len(places),
            "gpus": [f"GPU-{torch.cuda.get_device_properties(rank).uuid}"],
        }
        for rank, (pid, parent) in enumerate(place.tolist() for place in places)
    ]
    # A product and its bias forward, three or more kernels backward, and the optimizer's step.
    account.print_account(launches=2 * STEPS * 5, copies=2 * STEPS, processes=2, ranks=ranks)
