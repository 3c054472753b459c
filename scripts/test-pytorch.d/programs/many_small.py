"""A step of many small kernels, and its remedy: the step replayed as a CUDA graph. `many_small.py faulty` or
`many_small.py fixed`. (torch.compile is the other remedy. It takes a quarter of a minute or more to compile, so it is not
run here; compiled.py shows that gpuspy counts what it launches.)"""
import sys

import account

import torch

STEPS, LAYERS = 100, 40
faulty = sys.argv[1] == "faulty"
values = torch.ones(1 << 12, device="cuda")


def step(x):
    for _ in range(LAYERS):
        x = torch.sin(x) * 0.5 + 1.0
    return x.mean()


if faulty:
    for _ in range(STEPS):
        step(values)
else:
    # As PyTorch's documentation requires: a step on a side stream before the capture.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(values)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(values)
    for _ in range(STEPS):
        graph.replay()
torch.cuda.synchronize()
slow = {"findings": ["tiny-kernels"], "framework": "torch.cuda.make_graphed_callables", "bound": "launches"}
account.print_own_account(
    graphs=0 if faulty else STEPS, diagnosis={"steps": STEPS, **(slow if faulty else {"absent": ["tiny-kernels"]})}
)
