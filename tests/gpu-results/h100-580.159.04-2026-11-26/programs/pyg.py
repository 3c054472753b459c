"""PyTorch Geometric: a graph network of tiny kernels."""
import torch
from torch_geometric.nn import GCNConv
from torch_geometric.loader import NeighborLoader
from torch_geometric.data import Data
nodes = 5000
edges = torch.randint(0, nodes, (2, 50000))
data = Data(x=torch.randn(nodes, 64), edge_index=edges, y=torch.randint(0, 5, (nodes,))).to("cuda")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GCNConv(64, 128), GCNConv(128, 5)
    def forward(self, x, e):
        return self.b(self.a(x, e).relu(), e)
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(150):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(data.x, data.edge_index), data.y)
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        print(epoch, float(loss))
