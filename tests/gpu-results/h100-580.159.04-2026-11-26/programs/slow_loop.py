"""A training loop as beginners write it: the data set in the loop's own thread, pageable copies, and `.item()` in each step."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(20000, 1024), torch.randint(0, 1000, (20000,))), batch_size=64, num_workers=0)
total = 0.0
for x, y in loader:
    x = x.to("cuda")
    y = y.to("cuda")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    if (y == model(x).argmax(1)).float().mean() > 0.99:
        print("done")
print(total)
