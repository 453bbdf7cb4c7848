"""The network of twin_mindspore.py for PyTorch: the same weights, the same data, trained for two steps."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), eps=1e-5)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(6, 8)
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return torch.tanh(self.head(torch.matmul(F.softmax(torch.matmul(x, x.T), dim=-1), x)))


generator = np.random.RandomState(3)
net = Network()
with torch.no_grad():
    for parameter in net.parameters():
        parameter.copy_(torch.from_numpy(generator.uniform(-0.4, 0.4, parameter.shape).astype(np.float32)))
optimizer = torch.optim.SGD(net.parameters(), 0.05)
for number in range(2):
    loss = torch.mean(net(torch.from_numpy(generator.uniform(-1, 1, (5, 6)).astype(np.float32))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step %d: loss %.4f" % (number, float(loss)))
