"""Trains a tiny GPT on random text for a few steps: the program of docs/how-to/first-capture.md.

It knows nothing of msprobe. --gelu tanh computes one activation by its usual approximation, as another kernel library might.
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS, WIDTH, HEADS, LENGTH = 32, 16, 2, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.proj(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, gelu):
        super().__init__()
        self.gelu = gelu
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate=self.gelu))


class TinyGPT(nn.Module):
    def __init__(self, gelu):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block("none"), Block(gelu)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--gelu", default="none", choices=["none", "tanh"])
    given = parser.parse_args()
    torch.manual_seed(1)
    model = TinyGPT(given.gelu)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(given.steps):
        words = torch.randint(0, WORDS, (2, LENGTH + 1))
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step %d: loss %.4f" % (step, loss.item()))


if __name__ == "__main__":
    main()
