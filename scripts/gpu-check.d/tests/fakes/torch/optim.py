"""torch.optim."""
from torch.device import ELEMENTWISE, launch


class SGD:
    def __init__(self, *_, **__):
        pass

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            launch(ELEMENTWISE)

    def step(self):
        launch("optimizer_5us")


Adam = SGD
