"""A small net, compiled: two blocks of layer norm, MLP and a residual, trained for two steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm(x)
        h = F.gelu(self.up(h))
        return x + self.down(h)


class Net(nn.Module):
    def __init__(self, width=32, words=64):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        return F.cross_entropy(self.head(self.blocks(self.words(ids))).flatten(0, 1), ids.roll(-1, 1).flatten())


def main():
    torch.manual_seed(1)
    net = torch.compile(Net())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        loss = net(torch.randint(0, 64, (2, 16)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss %.4f" % loss.item())


if __name__ == "__main__":
    main()
