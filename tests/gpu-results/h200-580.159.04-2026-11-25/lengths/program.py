"""PyTorch kernels of 0.7 to 340 us in three situations: queued behind a kernel of 30 ms, each alone on a stream that is empty, and
launched one after the other. With --profile FILE it does so under torch.profiler."""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "scripts" / "gpu-check.d" / "programs"))

import torch
from steady import clock_pair, raw

parser = argparse.ArgumentParser()
parser.add_argument("--profile")
options = parser.parse_args()


def tensor(*shape):
    return torch.randn(*shape, device="cuda")


one, million, many, most = tensor(1), tensor(1 << 20), tensor(16 << 20), tensor(64 << 20)
small, large, wide, rows = tensor(512, 512), tensor(2048, 2048), tensor(4096, 4096).bfloat16(), tensor(64, 1024)
norm, embedding = torch.nn.LayerNorm(1024).cuda(), torch.nn.Embedding(5000, 512).cuda()
indices = torch.randint(0, 5000, (4096,), device="cuda")
heads = tensor(8, 12, 256, 64).half()
operations = [
    lambda: one.add_(1),
    lambda: million.add_(1),
    lambda: many.add_(1),
    lambda: most.mul_(1.0),
    lambda: small @ small,
    lambda: large @ large,
    lambda: wide @ wide,
    lambda: torch.softmax(rows, -1),
    lambda: norm(rows),
    lambda: million.sum(),
    lambda: many.sum(),
    lambda: embedding(indices),
    lambda: one.fill_(0),
    lambda: torch.nn.functional.scaled_dot_product_attention(heads, heads, heads),
    lambda: rows.t().contiguous(),
    lambda: torch.cumsum(million, 0),
    lambda: torch.sort(million),
]


def body():
    began = raw()
    for _ in range(12):
        torch.cuda._sleep(60_000_000)
        for _ in range(10):
            for operation in operations[:3] + operations[4:6] + operations[7:15]:
                operation()
        for operation in operations[3:7]:
            operation()
        torch.cuda.synchronize()
    queued = raw()
    for _ in range(40):
        for operation in operations:
            operation()
            torch.cuda.synchronize()
    alone = raw()
    for _ in range(30):
        for operation in operations:
            operation()
        torch.cuda.synchronize()
    return [began, queued, alone, raw()]


with torch.no_grad():
    for _ in range(3):
        for operation in operations:
            operation()
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    first = clock_pair()
    if options.profile:
        with torch.profiler.profile() as profile:
            regions = body()
        profile.export_chrome_trace(options.profile)
    else:
        regions = body()
last = clock_pair()
print(json.dumps({"program": "lengths", "regions": regions, "region": [regions[0], regions[-1]], "clocks": [first, last]}))
