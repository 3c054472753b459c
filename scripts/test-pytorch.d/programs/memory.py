"""Memory that grows, is given back and grows again, by whichever allocator PyTorch is set to use."""
import account

import torch

MB = 1 << 20
ROUNDS, SIZES = 3, (1, 3, 12, 40, 150)
held = []
for _ in range(ROUNDS):
    for size in SIZES:
        held.append(torch.ones(size * MB, dtype=torch.uint8, device="cuda"))
    # Blocks that work together on a sum count themselves in memory that is zeroed before.
    held[-1].view(torch.float32).sum()
    held.clear()
    # A small block is kept, and its segment with it.
    stays = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
assert torch.cuda.max_memory_reserved() >= sum(SIZES) * MB
account.print_own_account(launches=ROUNDS * (len(SIZES) + 2), sets=ROUNDS, allocations=ROUNDS * 3, frees=ROUNDS * 3)
