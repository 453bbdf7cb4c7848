"""Programs that torch.compile is given: name -> function that makes (function, calls), where calls is a list of argument lists.

Small, so that code is generated in seconds; each has operators of its own.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def _loss(result):
    if isinstance(result, (tuple, list)):
        return sum(_loss(part) for part in result)
    return result.float().square().mean() if result.is_floating_point() and result.requires_grad else result.new_zeros((), dtype=torch.float32)


class Trained:
    """Calls a module, and its backward pass."""

    def __init__(self, module, compiled=None):
        self.module = module
        self.compiled = torch.compile(module) if compiled is None else compiled

    def __call__(self, *args):
        result = self.compiled(*args)
        loss = _loss(result)
        if loss.requires_grad:
            loss.backward()
        return loss.detach()


class Mlp(nn.Module):
    def __init__(self, width=24, act=nn.GELU):
        super().__init__()
        self.up, self.act, self.down, self.norm = nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    def __init__(self, width=32, heads=4, drop=0.0, fused=False):
        super().__init__()
        self.heads, self.drop, self.fused = heads, drop, fused
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            y = F.dropout(scores.masked_fill(~mask, float("-inf")).softmax(-1), self.drop, self.training) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Gpt(nn.Module):
    def __init__(self, vocabulary=61, width=32, layers=2, drop=0.1):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), Attention(width, 4, drop), Mlp(width)) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = x + layer(x)
        return F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.one(x))), 2)
        return F.log_softmax(self.head(F.adaptive_avg_pool2d(self.two(x), 1).flatten(1)), -1)


class Rotary(nn.Module):
    def forward(self, x):
        t, d = x.shape[-2:]
        angle = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


class Experts(nn.Module):
    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate, self.up = nn.Linear(width, count), nn.Parameter(torch.randn(count, width, width) * 0.2)

    def forward(self, x):
        weight, chosen = torch.topk(self.gate(x).softmax(-1), 2)
        every = torch.einsum("td,edf->tef", x, self.up)
        picked = torch.gather(every, 1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        return (picked * weight[..., None]).sum(1)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, *args):
        return self.function(self.weight, *args)


def _losses(w, x, y):
    p = x * w
    return F.smooth_l1_loss(p, y) + F.binary_cross_entropy_with_logits(p, (y > 0).float()) + F.kl_div(p.log_softmax(-1), y.softmax(-1), reduction="batchmean")


def _scatter(w, x, i):
    out = torch.zeros(6, 8).index_add(0, i, x * w)
    return out.scatter_add(0, (i % 6)[:, None].expand(-1, 8), x * 2) + torch.zeros(6, 8).index_put((i,), x, accumulate=True)


def _sorted(w, x):
    values, order = torch.sort(x * w, -1)
    return values.cumsum(-1), torch.gather(x, 1, order), (x * w).argmax(-1), torch.topk(x * w, 3).values


def _in_place(w, x):
    y = x * w
    y.add_(1).mul_(0.5)
    y[:, 1:3] = y[:, 3:5] + 1
    return y.clamp_(-1, 1)


def _views(w, x):
    y = (x * w).t().contiguous().view(2, -1, x.shape[0]).permute(2, 0, 1)
    return torch.cat([y.flatten(1), x.flip(1), F.pad(x, (1, 2))], 1).roll(1, 1)


def _math(w, x):
    p = (x * w).abs() + 0.1
    return p.log() + p.sqrt() + torch.expm1(-p) + p.log1p() + torch.atan(x) + torch.erf(x) + p.pow(1.5) + torch.sin(x) * torch.cos(x) + p.reciprocal()


def _reductions(w, x):
    p = x * w
    return p.sum(0), p.mean(1), p.std(1), p.var(0), p.amax(1), p.amin(0), p.norm(dim=1), p.logsumexp(-1), p.prod(1)


def _autocast(w, x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return ((x * w) @ y).softmax(-1)


def _breaks(w, x):
    y = (x * w).tanh()
    torch._dynamo.graph_break()
    return F.silu(y) * y


def _lower(w, x):
    return (x * w).half().float() + (x * w).bfloat16().exp().float()


def _integers(w, x, i):
    return torch.where((i % 3 == 0)[:, None], x * w, -x) + F.one_hot(i % 8, 8).float() + (i // 2)[:, None]


def _batches(w, x):
    return torch.bmm(x[None].expand(3, -1, -1), (x * w).t()[None].expand(3, -1, -1)).softmax(-1)


def _big_sum(w, x):
    return (x.repeat(600, 1) * w).sum(), x.repeat(600, 1).var()


def _gated(w, x):
    a, b = (x * w).chunk(2, -1)
    return F.silu(a) * b, F.gelu(a, approximate="tanh") + F.softplus(b) + F.leaky_relu(a) + F.hardswish(b) + F.elu(a)


def _group(w, x):
    return F.group_norm(x[:, :, None] * w[None, :, None], 2)


def _up(w, x):
    return F.interpolate((x * w)[None, None], scale_factor=2.0, mode="nearest") + F.avg_pool2d((x * w).repeat(2, 2)[None, None], 3, 1, 1)


@torch.library.custom_op("msprobe_tests::product_into", mutates_args=("out",))
def product_into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.mm(a, b, out=out)


@torch.library.custom_op("msprobe_tests::scale_by", mutates_args=("x",))
def scale_by(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


product_into.register_fake(lambda out, a, b: None)
scale_by.register_fake(lambda x, factor: None)


def _own_operators(w, x):
    """Operators that write into their arguments, as engines have them: a buffer that nobody has written, and values that are there."""
    with torch.no_grad():
        hidden = torch.relu(x * w)
        out = torch.empty(x.shape[0], x.shape[0])
        product_into(out, hidden, hidden.t())
        gate = torch.sigmoid(out) + 1
        scale_by(gate, 0.5)
        return torch.tanh(gate * 3 - hidden.sum(-1, keepdim=True)), gate


def _normal(*shape):
    return torch.randn(*shape)


def _function(function, *arguments):
    def make():
        return Trained(Function(function)), [[argument() for argument in arguments]]
    return make


def _module(make_module, *arguments, calls=1):
    def make():
        return Trained(make_module()), [[argument() for argument in arguments] for _ in range(calls)]
    return make


def _optimizer(kind):
    def make():
        model = Mlp(16)
        optimizer = kind(model.parameters())
        step = torch.compile(optimizer.step)

        def train(x):
            model(x).square().mean().backward()
            step()
            optimizer.zero_grad()
        return train, [[_normal(4, 16)] for _ in range(2)]
    return make


def _dynamic():
    model = torch.compile(Mlp(16), dynamic=True)
    return Trained(None, model), [[_normal(rows, 16)] for rows in (4, 7, 9)]


def _inference(make_module, *arguments):
    def make():
        model = torch.compile(make_module().eval())

        def run(*args):
            with torch.no_grad():
                return model(*args)
        return run, [[argument() for argument in arguments]]
    return make


def _x():
    return _normal(6, 8)


def _ids():
    return torch.arange(6) * 5 % 6


MODELS = {
    "mlp": _module(Mlp, lambda: _normal(5, 24)),
    "mlp_relu": _module(lambda: Mlp(24, nn.ReLU), lambda: _normal(5, 24)),
    "rms_norm": _module(lambda: nn.Sequential(nn.Linear(24, 24), RmsNorm(24)), lambda: _normal(5, 24)),
    "attention": _module(Attention, lambda: _normal(2, 9, 32)),
    "fused_attention": _module(lambda: Attention(fused=True), lambda: _normal(2, 9, 32)),
    "gpt": _module(Gpt, lambda: torch.randint(0, 61, (2, 12))),
    "conv": _module(Conv, lambda: _normal(2, 3, 12, 12)),
    "rotary": _module(lambda: nn.Sequential(nn.Linear(16, 16), Rotary()), lambda: _normal(2, 7, 16)),
    "experts": _module(Experts, lambda: _normal(9, 16)),
    "embedding": _module(lambda: nn.Sequential(nn.Embedding(11, 12), nn.LayerNorm(12)), lambda: torch.randint(0, 11, (3, 8))),
    "dropout": _module(lambda: nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.2)), lambda: _normal(7, 16)),
    "losses": _function(_losses, _x, _x),
    "scatter": _function(_scatter, _x, _ids),
    "sorted": _function(_sorted, _x),
    "in_place": _function(_in_place, _x),
    "views": _function(_views, _x),
    "math": _function(_math, _x),
    "reductions": _function(_reductions, _x),
    "autocast": _function(_autocast, _x, lambda: _normal(8, 5)),
    "breaks": _function(_breaks, _x),
    "lower": _function(_lower, _x),
    "integers": _function(_integers, _x, _ids),
    "batches": _function(_batches, _x),
    "big_sum": _function(_big_sum, _x),
    "gated": _function(_gated, _x),
    "group_norm": _function(_group, _x),
    "pooling": _function(_up, _x),
    "own_operators": _function(_own_operators, _x),
    "dynamic": _dynamic,
    "adamw": _optimizer(lambda parameters: torch.optim.AdamW(parameters, 1e-2)),
    "sgd": _optimizer(lambda parameters: torch.optim.SGD(parameters, 1e-1, momentum=0.9)),
    "inference": _inference(Mlp, lambda: _normal(5, 24)),
    "inference_conv": _inference(Conv, lambda: _normal(2, 3, 12, 12)),
}
