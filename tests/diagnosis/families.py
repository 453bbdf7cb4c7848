"""Small random models of many families, written the way people write them.

A family is a class with `sizes(rng)`, the arguments of its constructor; `batch(generator)`, the
tensors of one step; and `loss(batch)`. Widths, depths and lengths are drawn anew for every case.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

FAMILIES = {}


def family(cls):
    FAMILIES[cls.__name__] = cls
    return cls


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def labels(generator, count, *shape):
    return torch.randint(0, count, shape, generator=generator)


class Classifier(nn.Module):
    """What families that end in classes share."""

    def loss(self, batch):
        return F.cross_entropy(self(batch["x"]).float(), batch["target"])


@family
class MLP(Classifier):
    @staticmethod
    def sizes(rng):
        return dict(width=rng.choice([8, 16, 24, 48]), depth=rng.randint(1, 4), rows=rng.choice([4, 8, 16]),
                    act=rng.choice(["relu", "gelu", "tanh", "silu"]), drop=rng.choice([0.0, 0.1]))

    def __init__(self, width, depth, rows, act, drop):
        super().__init__()
        self.rows, self.width = rows, width
        acts = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "silu": nn.SiLU}
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), acts[act]()]
            if drop:
                layers.append(nn.Dropout(drop))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.body(x))

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, self.width), target=labels(generator, 5, self.rows))


@family
class CNN(Classifier):
    @staticmethod
    def sizes(rng):
        return dict(channels=rng.choice([4, 8, 12]), depth=rng.randint(1, 3), size=rng.choice([8, 12]),
                    rows=rng.choice([2, 4, 8]))

    def __init__(self, channels, depth, size, rows):
        super().__init__()
        self.rows, self.size = rows, size
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(_ConvBlock(channels) for _ in range(depth))
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(channels * 4, 6)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(self.pool(F.max_pool2d(x, 2)).flatten(1))

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, 3, self.size, self.size),
                    target=labels(generator, 6, self.rows))


class _ConvBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return x + self.relu(self.bn(self.conv(x)))


class _Attention(nn.Module):
    def __init__(self, width, heads, drop=0.0, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2) for t in (q, k, v))
        a = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(h // self.heads)
        if self.causal:
            mask = torch.triu(torch.ones(s, s, dtype=torch.bool), diagonal=1)
            a = a.masked_fill(mask, float("-inf"))
        a = self.drop(F.softmax(a, dim=-1))
        return self.proj(torch.matmul(a, v).transpose(1, 2).reshape(b, s, h))


class _FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class _Block(nn.Module):
    def __init__(self, width, heads, drop=0.0, causal=True):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = _Attention(width, heads, drop, causal)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = _FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class LanguageModel(nn.Module):
    """What families that predict the next of `vocabulary` tokens share."""

    def batch(self, generator):
        return dict(x=labels(generator, self.vocabulary, self.rows, self.length),
                    target=labels(generator, self.vocabulary, self.rows, self.length))

    def loss(self, batch):
        logits = self(batch["x"]).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), batch["target"].view(-1))


def _language_sizes(rng):
    return dict(width=rng.choice([8, 16, 32]), depth=rng.randint(1, 3), length=rng.choice([5, 8, 12]),
                rows=rng.choice([2, 3, 4]))


@family
class GPT(LanguageModel):
    @staticmethod
    def sizes(rng):
        return dict(_language_sizes(rng), drop=rng.choice([0.0, 0.0, 0.1]))

    def __init__(self, width, depth, length, rows, drop, tied=False, checkpointed=False):
        super().__init__()
        self.vocabulary, self.length, self.rows = 23, length, rows
        self.tok = nn.Embedding(self.vocabulary, width)
        self.pos = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_Block(width, 2, drop) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, self.vocabulary, bias=False)
        self.checkpointed = checkpointed
        if tied:
            self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            if self.checkpointed:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)
            else:
                x = block(x)
        return self.head(self.ln_f(x))


@family
class TiedGPT(GPT):
    def __init__(self, **sizes):
        super().__init__(tied=True, **sizes)


@family
class CheckpointedGPT(GPT):
    def __init__(self, **sizes):
        super().__init__(checkpointed=True, **sizes)


@family
class LSTM(LanguageModel):
    @staticmethod
    def sizes(rng):
        return _language_sizes(rng)

    def __init__(self, width, depth, length, rows):
        super().__init__()
        self.vocabulary, self.length, self.rows = 19, length, rows
        self.tok = nn.Embedding(self.vocabulary, width)
        self.rnn = nn.LSTM(width, width, num_layers=depth, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, self.vocabulary)

    def forward(self, ids):
        hidden, _ = self.rnn(self.tok(ids))
        return self.head(self.norm(hidden))


@family
class CellRNN(LanguageModel):
    """A recurrent net by hand: the same modules are called once per position."""

    @staticmethod
    def sizes(rng):
        return dict(_language_sizes(rng), depth=1, length=rng.choice([3, 4, 5]))

    def __init__(self, width, depth, length, rows):
        super().__init__()
        self.vocabulary, self.length, self.rows, self.width = 17, length, rows, width
        self.tok = nn.Embedding(self.vocabulary, width)
        self.gate = nn.Linear(2 * width, width)
        self.cand = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, self.vocabulary)

    def forward(self, ids):
        x = self.tok(ids)
        h = torch.zeros(x.shape[0], self.width, dtype=x.dtype)
        out = []
        for i in range(x.shape[1]):
            both = torch.cat([x[:, i], h], dim=-1)
            z = torch.sigmoid(self.gate(both))
            h = (1 - z) * h + z * torch.tanh(self.cand(both))
            out.append(self.head(h))
        return torch.stack(out, dim=1)


@family
class ViT(Classifier):
    @staticmethod
    def sizes(rng):
        return dict(width=rng.choice([8, 16, 32]), depth=rng.randint(1, 3), rows=rng.choice([2, 4]))

    def __init__(self, width, depth, rows):
        super().__init__()
        self.rows = rows
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 5, width) * 0.02)
        self.blocks = nn.ModuleList(_Block(width, 2, causal=False) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 7)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, 3, 8, 8), target=labels(generator, 7, self.rows))


class _Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(_FeedForward(width) for _ in range(count))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == i)
            if rows.numel():
                out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, slot].unsqueeze(-1))
        return out.view_as(x)


@family
class MoE(LanguageModel):
    @staticmethod
    def sizes(rng):
        return dict(_language_sizes(rng), experts=rng.choice([2, 3, 4]), depth=rng.randint(1, 2))

    def __init__(self, width, depth, length, rows, experts):
        super().__init__()
        self.vocabulary, self.length, self.rows = 21, length, rows
        self.tok = nn.Embedding(self.vocabulary, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.attns = nn.ModuleList(_Attention(width, 2) for _ in range(depth))
        self.moes = nn.ModuleList(_Experts(width, max(experts, 2)) for _ in range(depth))
        self.head = nn.Linear(width, self.vocabulary)

    def forward(self, ids):
        x = self.tok(ids)
        for norm, attn, moe in zip(self.norms, self.attns, self.moes):
            x = x + attn(norm(x))
            x = x + moe(x)
        return self.head(x)


class _DoubleConv(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.norm = nn.GroupNorm(2, after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)

    def forward(self, x):
        return F.silu(self.conv2(F.silu(self.norm(self.conv1(x)))))


@family
class UNet(nn.Module):
    @staticmethod
    def sizes(rng):
        return dict(channels=rng.choice([4, 6, 8]), rows=rng.choice([1, 2, 3]), timed=False)

    def __init__(self, channels, rows, timed):
        super().__init__()
        self.rows, self.channels = rows, channels
        self.down = _DoubleConv(3, channels)
        self.mid = _DoubleConv(channels, 2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.join = _DoubleConv(2 * channels, channels)
        self.out = nn.Conv2d(channels, 3, 1)
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, channels)) if timed else None

    def forward(self, x, t=None):
        skip = self.down(x)
        if self.time is not None:
            angles = t[:, None].to(x.dtype) * torch.exp(torch.arange(4, dtype=x.dtype) * -1.5)[None]
            embedded = self.time(torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1))
            skip = skip + embedded[:, :, None, None]
        x = self.up(self.mid(F.avg_pool2d(skip, 2)))
        return self.out(self.join(torch.cat([x, skip], dim=1)))

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, 3, 8, 8), target=normal(generator, self.rows, 3, 8, 8),
                    t=torch.rand(self.rows, generator=generator) * 10)

    def loss(self, batch):
        if self.time is None:
            return F.mse_loss(self(batch["x"]).float(), batch["target"].float())
        x = batch["x"]
        noise = x.new_empty(x.shape).copy_(torch.randn(x.shape))  # the same numbers whatever the dtype
        noised = x * 0.8 + noise * 0.6
        return F.mse_loss(self(noised, batch["t"]).float(), noise.float())


@family
class DiffusionUNet(UNet):
    @staticmethod
    def sizes(rng):
        return dict(UNet.sizes(rng), timed=True)


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.pw1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.pw2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(0.5 * torch.ones(width))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pw2(self.act(self.pw1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


@family
class ConvNeXt(Classifier):
    @staticmethod
    def sizes(rng):
        return dict(width=rng.choice([4, 8, 12]), depth=rng.randint(1, 3), rows=rng.choice([2, 4]))

    def __init__(self, width, depth, rows):
        super().__init__()
        self.rows = rows
        self.stem = nn.Conv2d(3, width, 2, stride=2)
        self.blocks = nn.Sequential(*[_ConvNeXtBlock(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, 3, 8, 8), target=labels(generator, 5, self.rows))


class _RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _SwiGLU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class _RotaryAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    @staticmethod
    def rotate(x):
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] / (
            100.0 ** (torch.arange(half, dtype=torch.float32) / half))
        cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in (self.q(x), self.k(x), self.v(x)))
        a = torch.matmul(self.rotate(q), self.rotate(k).transpose(2, 3)) * (h // self.heads) ** -0.5
        a = a + torch.full((s, s), float("-inf"), dtype=a.dtype).triu(1)
        return self.o(torch.matmul(a.softmax(-1), v).transpose(1, 2).contiguous().view(b, s, h))


class _LlamaBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = _RMSNorm(width)
        self.attn = _RotaryAttention(width, 2)
        self.norm2 = _RMSNorm(width)
        self.mlp = _SwiGLU(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@family
class Llama(LanguageModel):
    @staticmethod
    def sizes(rng):
        return _language_sizes(rng)

    def __init__(self, width, depth, length, rows):
        super().__init__()
        self.vocabulary, self.length, self.rows = 29, length, rows
        self.tok = nn.Embedding(self.vocabulary, width)
        self.layers = nn.ModuleList(_LlamaBlock(width) for _ in range(depth))
        self.norm = _RMSNorm(width)
        self.head = nn.Linear(width, self.vocabulary, bias=False)

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@family
class InPlace(Classifier):
    """Residuals and activations in place, as memory-conscious code has them."""

    @staticmethod
    def sizes(rng):
        return dict(width=rng.choice([8, 16, 32]), depth=rng.randint(1, 3), rows=rng.choice([4, 8]))

    def __init__(self, width, depth, rows):
        super().__init__()
        self.rows, self.width = rows, width
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        x = x * 1.5
        for layer, norm in zip(self.layers, self.norms):
            y = norm(layer(x))
            y.mul_(0.7)
            y += x
            x = y.relu_()
        return self.head(x)

    def batch(self, generator):
        return dict(x=normal(generator, self.rows, self.width), target=labels(generator, 5, self.rows))


def build(name, sizes):
    return FAMILIES[name](**sizes)
