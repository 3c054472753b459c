"""A fake of Triton: a kernel written in it is a kernel of the fake torch with the same name."""
from torch.device import launch


def jit(function):
    return Kernel(function.__name__)


class Kernel:
    def __init__(self, name):
        self.name = name

    def __getitem__(self, grid):
        return lambda *arguments, **constants: launch(self.name)
