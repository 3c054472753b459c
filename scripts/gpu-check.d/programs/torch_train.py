"""Training steps: an MLP with SGD and a transformer block with Adam."""
import steady

import torch
from torch import nn

if not torch.cuda.is_available():
    steady.skip("torch sees no GPU")
torch.manual_seed(1)
mlp = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
block = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True).cuda()
sgd = torch.optim.SGD(mlp.parameters(), lr=1e-3, momentum=0.9)
adam = torch.optim.Adam(block.parameters(), lr=1e-4)
rows = torch.randn(256, 512, device="cuda")
sentences = torch.randn(8, 64, 256, device="cuda")


def train(model, optimizer, batch):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(batch), batch).backward()
    optimizer.step()


def step():
    train(mlp, sgd, rows)
    train(block, adam, sentences)


steady.measure("torch_train", step, torch.cuda.synchronize, ["torch"], steps=5)
