"""More memory than there is, an error that is caught, and training that goes on."""
import account

import torch

free, total = torch.cuda.mem_get_info()
weights = torch.ones(1000, device="cuda", requires_grad=True)
caught = 0
for size in (2 * total, total - free // 4, 4 * total):
    held = []
    try:
        for _ in range(2):
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        caught += 1
    del held
    torch.cuda.empty_cache()
    (weights * 2).sum().backward()
assert caught == 3
account.print_own_account(launches=9, failed=3)
