"""Several processes: a DataLoader whose workers never use the GPU, and two more that do, one spawned and one run."""
import subprocess
import sys

import account

import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, ROWS, BATCH = 2, 256, 32


def work(times):
    x = torch.ones(1 << 12, device="cuda")
    for _ in range(times):
        x.mul_(2)
    return x.cpu()


def main():
    # The workers are forked after CUDA has been initialized here.
    weights = torch.ones(16, 1, device="cuda")
    data = TensorDataset(torch.ones(ROWS, 16), torch.zeros(ROWS))
    for _ in range(EPOCHS):
        for features, labels in DataLoader(data, batch_size=BATCH, num_workers=2, pin_memory=True):
            assert features.is_pinned()
            (features.to("cuda", non_blocking=True) @ weights).sub(labels.to("cuda", non_blocking=True)).sum()
    torch.cuda.synchronize()

    spawned = torch.multiprocessing.get_context("spawn").Process(target=work, args=(50,))
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import processes; processes.work(70)"], cwd=sys.path[0], check=True)
    batches = EPOCHS * ROWS // BATCH
    account.print_account(launches=3 * batches + 120, copies=2 * batches + 2, processes=3)


if __name__ == "__main__":
    main()
