"""Lightning: pictures of a data set with two workers, 16-mixed precision."""
import torch
from torch import nn
try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                                 nn.Flatten(), nn.LazyLinear(10))
    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 6400
    def __getitem__(self, at):
        return torch.randn(3, 64, 64), at % 10

def main():
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=64, num_workers=2)
    net = Net()
    net.net(torch.zeros(1, 3, 64, 64))
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=True, precision="16-mixed")
    trainer.fit(net, loader)

if __name__ == "__main__":
    main()
