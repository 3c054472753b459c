"""A fake of PyTorch: as much of it as gpu-check's programs call. An operation is a launch on the simulated GPU and
computes nothing; shapes are not kept. With --profile the program runs under truth_as_profile.py, since the simulated
GPU has no CUPTI."""
import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if "--profile" in sys.argv:
    wrapper = os.path.join(TESTS, "truth_as_profile.py")
    os.execv(sys.executable, [sys.executable, "-B", wrapper, sys.executable, "-B", *sys.argv])

import contextlib

from torch import compiler, cuda, nn, optim
from torch.device import Tensor, launch

__all__ = ["compiler", "cuda", "nn", "optim", "Tensor", "launch"]


def manual_seed(_):
    pass


def randn(*_, device="cpu"):
    return Tensor(device)


rand = randn


def full(_, value):
    return Tensor("cpu")


def empty_like(tensor):
    return Tensor(tensor.device)


def mm(_, __):
    launch("gemm_20us")
    return Tensor("cuda")


@contextlib.contextmanager
def inference_mode():
    yield


def compile(model, mode):
    return model
