"""long.py gpt|small|tiny SECONDS [PROFILE]: trains a GPT with 16 sequences in a batch, whose steps the GPU takes longer for than
the host, or with one, or launches empty work, and prints the time of a step. With PROFILE, the measured part runs under
torch.profiler, and the file gets the number and the time of its kernels by name."""
import json
import statistics
import sys
import time

import torch
from torch import nn
kind, seconds = sys.argv[1], float(sys.argv[2])
profile = sys.argv[3] if len(sys.argv) > 3 else None
torch.manual_seed(1)
dev = "cuda"

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))

class Gpt(nn.Module):
    def __init__(self, d=512, layers=6, vocab=8192, length=512):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.Sequential(*[Block(d) for _ in range(layers)])
        self.head = nn.Linear(d, vocab, bias=False)
    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        return self.head(self.blocks(h))

def make_gpt(batch):
    model = Gpt().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = [torch.randint(0, 8192, (batch, 513)).pin_memory() for _ in range(8)]
    state = {"n": 0}
    def step():
        n = state["n"]; state["n"] += 1
        x = data[n % 8].to(dev, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(x[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), x[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if n % 50 == 49:
            state["loss"] = loss.item()
    return step

def make_tiny():
    x = torch.zeros(1024, device=dev)
    def step():
        for _ in range(1000):
            x.add_(1)
        torch.cuda.synchronize()
    return step

step = {"gpt": lambda: make_gpt(16), "small": lambda: make_gpt(1), "tiny": make_tiny}[kind]()
warm = 3 if kind == "tiny" else 30
for _ in range(warm):
    step()
torch.cuda.synchronize()
block = 1 if kind == "tiny" else 10
def measured():
    begin, marks, steps = time.perf_counter(), [], 0
    while time.perf_counter() - begin < seconds:
        t = time.perf_counter_ns()
        for _ in range(block):
            step()
        steps += block
        marks.append((time.perf_counter_ns() - t) / block)
    torch.cuda.synchronize()
    return steps, time.perf_counter() - begin, marks
if profile:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as prof:
        steps, took, marks = measured()
    rows = {}
    for event in prof.events():
        if str(event.device_type).endswith("CUDA"):
            row = rows.setdefault(event.name, [0, 0.0])
            row[0] += 1
            row[1] += event.time_range.elapsed_us()
    json.dump({"steps": steps, "rows": rows}, open(profile, "w"))
else:
    steps, took, marks = measured()
half = marks[len(marks) // 2:]
print(json.dumps({"kind": kind, "steps": steps, "step_ns": took / steps * 1e9, "median_ns": statistics.median(marks),
                  "late_median_ns": statistics.median(half), "late_mean_ns": statistics.mean(half)}))
