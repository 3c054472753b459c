"""The account of themselves that the programs print in the last line of their output, for against_truth.py to
compare."""
import json
import time

import torch

# The first steps load modules and make room for memory.
WARM_UP = 2
loop_ns = None


def timed(steps):
    """Passes the steps on, and notes how long they took after the warm-up until the GPU had done them."""
    global loop_ns
    for number, step in enumerate(steps):
        if number == WARM_UP:
            torch.cuda.synchronize()
            began = time.perf_counter_ns()
        yield step
    torch.cuda.synchronize()
    loop_ns = time.perf_counter_ns() - began


def print_own_account(kernels=(), calls=None, held_up=False, diagnosis=None, **at_least):
    """Prints what the program did at least, and exactly what PyTorch counted of its own allocator's calls."""
    torch.cuda.synchronize()
    counted = {}
    if torch.cuda.get_allocator_backend() == "native":
        stats = torch.cuda.memory_stats()
        counted = {"cudaMalloc": stats["segment.all.allocated"], "cudaFree": stats["segment.all.freed"]}
    print_account(kernels, {**counted, **(calls or {})}, held_up=held_up, diagnosis=diagnosis, **at_least)


def print_account(kernels=(), calls=None, ranks=(), held_up=False, diagnosis=None, **at_least):
    """Prints the same for a program of several processes, in which one process cannot count for the others."""
    said = {"kernels": list(kernels), "calls": calls or {}, "ranks": list(ranks), "held_up": held_up, "at_least": at_least}
    if loop_ns is not None:
        said |= {"loop_ns": loop_ns, "warm_up": WARM_UP}
    print(json.dumps({**said, **(diagnosis or {})}))
