"""NCCL collectives on one GPU, in a world of one rank, beside other work of the program."""
import os
import tempfile

import steady

import torch
import torch.distributed as distributed

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
if not distributed.is_nccl_available():
    steady.skip("this torch has no NCCL")
with tempfile.TemporaryDirectory() as folder:
    meeting = "file://" + os.path.join(folder, "meeting")
    distributed.init_process_group("nccl", init_method=meeting, rank=0, world_size=1)
    gradients = torch.randn(1 << 20, device="cuda")
    weights = torch.randn(1024, 1024, device="cuda")

    def step():
        handle = distributed.all_reduce(gradients, async_op=True)
        torch.mm(weights, weights)
        handle.wait()
        distributed.broadcast(gradients, src=0)

    steady.measure("torch_nccl", step, torch.cuda.synchronize, ["torch"])
    distributed.destroy_process_group()
