"""The time of PyTorch's import and of its first CUDA calls, ms each."""
import json
import time

t = [("begin", time.perf_counter())]
import torch
t.append(("import", time.perf_counter()))
torch.cuda.init(); t.append(("init", time.perf_counter()))
x = torch.zeros(1000, device="cuda"); torch.cuda.synchronize(); t.append(("zeros", time.perf_counter()))
y = torch.ones(256, 256, device="cuda"); z = y @ y; torch.cuda.synchronize(); t.append(("matmul", time.perf_counter()))
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    z = y @ y
torch.cuda.synchronize(); t.append(("stream", time.perf_counter()))
print(json.dumps({b[0]: round((b[1] - a[1]) * 1e3, 3) for a, b in zip(t, t[1:])}))
