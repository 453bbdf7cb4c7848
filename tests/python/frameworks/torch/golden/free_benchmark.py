"""Two trainings under free_benchmark, as a user writes them: two steps of a small GPT or of a convolutional network.

usage: free_benchmark.py NET CONFIG DTYPE        NET: gpt, cnn     DTYPE: float32, bfloat16

The rows of the Python tool were made with it too: README.md has the command.
"""
import math
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

net, config, dtype = sys.argv[1], sys.argv[2], getattr(torch, sys.argv[3])
torch.set_num_threads(1)
# Without it the Python tool writes no rows.
torch.distributed.init_process_group("gloo", init_method="file://" + os.path.join(tempfile.mkdtemp(), "meet"), rank=0, world_size=1)

from msprobe.pytorch import PrecisionDebugger  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.before(x)).chunk(3, dim=-1))
        scores = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(width // self.heads), dim=-1)
        x = x + self.out(torch.matmul(scores, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt(nn.Module):
    def __init__(self, words=32, width=16, length=8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 10)

    def forward(self, images):
        x = F.max_pool2d(torch.relu(self.norm(self.conv(images))), 2)
        return F.log_softmax(self.head(x.flatten(1)), dim=1)


torch.manual_seed(1)
model = (Gpt() if net == "gpt" else Cnn()).to(dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
debugger = PrecisionDebugger(config)
for _ in range(2):
    if net == "gpt":
        tokens, target = torch.randint(0, 32, (2, 8)), torch.randint(0, 32, (16,))
    else:
        tokens, target = torch.rand(4, 3, 8, 8).to(dtype), torch.randint(0, 10, (4,))
    debugger.start()
    result = model(tokens)
    loss = F.cross_entropy(result.flatten(0, 1).float(), target) if net == "gpt" else F.nll_loss(result.float(), target)
    optimizer.zero_grad()
    loss.backward()
    debugger.stop()
    optimizer.step()
    debugger.step()
    print("loss", loss.item())
