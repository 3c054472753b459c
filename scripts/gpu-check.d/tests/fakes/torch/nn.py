"""torch.nn: layers that launch a kernel or two."""
import types

from torch.device import ELEMENTWISE, Tensor, launch


class Module:
    kernels = (ELEMENTWISE,)

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_):
        for name in self.kernels:
            launch(name)
        return Tensor("cuda")

    def cuda(self):
        launch(ELEMENTWISE)
        return self

    def parameters(self):
        return []


class Linear(Module):
    kernels = ("gemm_20us",)


class Conv2d(Linear):
    pass


class TransformerEncoderLayer(Module):
    kernels = ("gemm_20us", "reduce_5us", "gemm_20us", ELEMENTWISE)


GELU = ReLU = LayerNorm = MaxPool2d = Flatten = Module


class CrossEntropyLoss(Module):
    kernels = ("reduce_5us",)


class Sequential(Module):
    def __init__(self, *layers):
        self.kernels = tuple(name for layer in layers for name in layer.kernels)


def _mse_loss(_, __):
    launch("reduce_5us")
    return Tensor("cuda")


functional = types.SimpleNamespace(mse_loss=_mse_loss)
