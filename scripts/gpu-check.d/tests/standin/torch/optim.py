"""torch.optim."""
from torch.device import launch


class SGD:
    def __init__(self, *_, **__):
        pass

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            launch("elementwise_5us")

    def step(self):
        launch("optimizer_5us")


Adam = SGD
