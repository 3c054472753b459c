"""lines.py: each line that works is known: the report has to name it."""
import torch


def deep(n, f):
    return f() if n == 0 else deep(n - 1, f)


x = torch.ones(64, 64, device="cuda")
model = torch.nn.TransformerEncoderLayer(64, 4, 128).cuda().eval()
y = torch.ones(8, 4, 64, device="cuda")
with torch.no_grad():
    for n in range(300):
        a = x + n  # A
        b = deep(n % 7, lambda: x * n)  # B
        model(y)  # C
        if n % 10 == 0:
            c = float(a.sum())  # D
torch.cuda.synchronize()  # E
