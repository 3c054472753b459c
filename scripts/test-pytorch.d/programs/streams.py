"""Streams, events, and copies from and to pinned memory that are not waited for."""
import account

import torch

ROUNDS, COUNT = 20, 1 << 16
fast, slow = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
source = torch.ones(COUNT).pin_memory()
target = torch.empty(COUNT).pin_memory()
pageable = torch.ones(COUNT)
current = torch.cuda.current_stream()
events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
before = torch.cuda.Event()

for _ in range(ROUNDS):
    fast.wait_stream(current)
    with torch.cuda.stream(fast):
        events[0].record()
        there = source.to("cuda", non_blocking=True)
        there.add_(1)
        events[1].record()
    slow.wait_event(events[1])
    with torch.cuda.stream(slow):
        there.record_stream(slow)
        twice = there * 2
        target.copy_(twice, non_blocking=True)
        before.record()
    while not before.query():
        pass
    before.synchronize()
    assert events[0].elapsed_time(events[1]) > 0
    slow.synchronize()
    pageable.to("cuda").to("cpu")
    current.wait_stream(slow)

torch.cuda.synchronize()
account.print_own_account(launches=2 * ROUNDS, copies=4 * ROUNDS, syncs=3 * ROUNDS + 1, calls={"cudaEventSynchronize": ROUNDS})
