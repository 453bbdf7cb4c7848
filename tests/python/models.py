"""Small models the tests and benchmarks train: a convolutional net and a tiny GPT."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(4 * 4 * 4, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn(self.conv1(x))))
        x = x.view(x.size(0), -1)
        return F.log_softmax(self.fc(x), dim=1)


class Attention(nn.Module):
    def __init__(self, h, n):
        super().__init__()
        self.n = n
        self.qkv = nn.Linear(h, 3 * h)
        self.proj = nn.Linear(h, h)
        self.drop = nn.Dropout(0.0)

    def forward(self, x, mask=None):
        b, s, h = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, s, self.n, h // self.n).transpose(1, 2)
        k = k.view(b, s, self.n, h // self.n).transpose(1, 2)
        v = v.view(b, s, self.n, h // self.n).transpose(1, 2)
        a = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(h // self.n)
        if mask is not None:
            a = a.masked_fill(mask, float('-inf'))
        p = self.drop(F.softmax(a, dim=-1))
        o = torch.matmul(p, v).transpose(1, 2).contiguous().view(b, s, h)
        return self.proj(o)


class MLP(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.fc1 = nn.Linear(h, 4 * h)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * h, h)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, h, n):
        super().__init__()
        self.ln1 = nn.LayerNorm(h)
        self.attn = Attention(h, n)
        self.ln2 = nn.LayerNorm(h)
        self.mlp = MLP(h)

    def forward(self, x, mask=None):
        x = x + self.attn(self.ln1(x), mask)
        return x + self.mlp(self.ln2(x))


class TinyGPT(nn.Module):
    def __init__(self, vocab=32, h=16, n=2, layers=2, seq=8, ckpt=False, debugger_save=None):
        super().__init__()
        self.tok = nn.Embedding(vocab, h)
        self.pos = nn.Embedding(seq, h)
        self.blocks = nn.ModuleList([Block(h, n) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(h)
        self.head = nn.Linear(h, vocab, bias=False)
        self.ckpt = ckpt
        self.save = debugger_save

    def forward(self, ids):
        b, s = ids.shape
        pos = torch.arange(s, device=ids.device)
        x = self.tok(ids) + self.pos(pos)
        mask = torch.triu(torch.ones(s, s, dtype=torch.bool, device=ids.device), diagonal=1)
        for i, blk in enumerate(self.blocks):
            if self.ckpt:
                x = torch.utils.checkpoint.checkpoint(blk, x, mask, use_reentrant=True)
            else:
                x = blk(x, mask)
            if self.save:
                self.save({'hidden': x, 'meta': {'layer': i, 'tag': 'blk', 'list': [x * 2, 0.5]}}, f'block{i}')
        return self.head(self.ln_f(x))


class WrongGradient(torch.autograd.Function):
    """A fault to plant: hands its argument on, and a gradient that is one per cent too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.01
