"""A step of many small kernels, and its two remedies: the step replayed as a CUDA graph, or fused by torch.compile, whose
compiling is then what takes the time of a short run. `many_small.py faulty|fixed|compiled`."""
import sys

import account

import torch

STEPS, LAYERS = 100, 40
variant = sys.argv[1]
values = torch.ones(1 << 12, device="cuda")


def step(x):
    for _ in range(LAYERS):
        x = torch.sin(x) * 0.5 + 1.0
    return x.mean()


if variant == "faulty":
    for _ in account.timed(range(STEPS)):
        step(values)
elif variant == "compiled":
    fused = torch.compile(step)
    for _ in range(STEPS):
        fused(values)
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
    for _ in account.timed(range(STEPS)):
        graph.replay()
torch.cuda.synchronize()
DIAGNOSES = {
    "faulty": {
        "steps": STEPS,
        "findings": ["tiny-kernels"],
        "framework": "torch.cuda.make_graphed_callables",
        "bound": "launches",
    },
    "fixed": {"steps": STEPS, "absent": ["tiny-kernels"]},
    # A step is one launch, of which nobody knows that it is one.
    "compiled": {"findings": ["cold-start"], "framework": "TORCHINDUCTOR_CACHE_DIR", "bound": "start_up", "absent": ["tiny-kernels"]},
}
account.print_own_account(graphs=STEPS if variant == "fixed" else 0, diagnosis=DIAGNOSES[variant])
