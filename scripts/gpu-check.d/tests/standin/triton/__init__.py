"""A simulator for Triton: a kernel that is written in it is a kernel of the simulator torch by the same name."""
from torch.device import launch


def jit(function):
    return Kernel(function.__name__)


class Kernel:
    def __init__(self, name):
        self.name = name

    def __getitem__(self, grid):
        return lambda *arguments, **constants: launch(self.name)
