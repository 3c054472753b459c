"""Two processes share memory: tensors are sent through a queue by CUDA handles, and changed by the receiver."""
import account

import torch
from torch import multiprocessing

TENSORS, COUNT = 3, 1 << 12


def receive(queue, done):
    for _ in range(TENSORS):
        tensor = queue.get()
        tensor.mul_(2)
        torch.cuda.synchronize()
        del tensor
        done.put(None)


def main():
    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    receiver = context.Process(target=receive, args=(queue, done))
    receiver.start()
    for _ in range(TENSORS):
        tensor = torch.ones(COUNT, device="cuda")
        queue.put(tensor)
        done.get()
    receiver.join()
    assert receiver.exitcode == 0, receiver.exitcode
    torch.cuda.synchronize()
    # A segment of the allocator, which is opened again each time because no process has it open any more.
    account.print_account(launches=2 * TENSORS, allocations=1 + TENSORS, frees=TENSORS, processes=2)


if __name__ == "__main__":
    main()
