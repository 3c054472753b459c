"""torch.utils.data: a loader without workers."""
from torch.device import Tensor


class Dataset:
    pass


class DataLoader:
    def __init__(self, dataset, batch_size, num_workers, pin_memory):
        self.dataset, self.batch_size = dataset, batch_size

    def __iter__(self):
        for first in range(0, len(self.dataset), self.batch_size):
            for at in range(first, first + self.batch_size):
                self.dataset[at]
            yield Tensor("cpu"), Tensor("cpu")
