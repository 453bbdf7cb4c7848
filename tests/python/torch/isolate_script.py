"""Trains one of three small models for two steps, with five planted faults if asked. The reference
and the run under test are both of it.

usage: isolate_script.py {gpt,cnn,moe} [--faults] [--launched | --record FOLDER | --isolate FOLDER OUTPUT]
"""
import argparse
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from models import SmallCNN, TinyGPT, WrongGradient  # noqa: E402

torch.set_num_threads(1)


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Mixture(nn.Module):
    """Each token goes to two of four experts."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList([Expert(width) for _ in range(4)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out = out.index_add(0, token, expert(x[token]) * weights[token, place, None])
        return out


class SmallMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(2)])
        self.mixtures = nn.ModuleList([Mixture(16) for _ in range(2)])
        self.head = nn.Linear(16, 32)

    def forward(self, words):
        x = self.embed(words).flatten(0, 1)
        for norm, mixture in zip(self.norms, self.mixtures):
            x = x + mixture(norm(x))
        return self.head(x)


# ---- faults ----

def scaled(module, factor=1.001):
    """The result of a module, a little too large."""
    original = module.forward
    module.forward = lambda *args: original(*args) * factor


def wrong_backward(module):
    """The forward pass is right."""
    original = module.forward
    module.forward = lambda x: original(WrongGradient.apply(x))


def wrong_weight(module):
    with torch.no_grad():
        module.weight.view(-1)[3] += 0.01


def wrong_scores(attention):
    """Between the modules of an attention."""
    original = math.sqrt(attention.qkv.in_features // attention.n)

    def forward(x, mask=None):
        b, s, h = x.shape
        q, k, v = (part.view(b, s, attention.n, -1).transpose(1, 2)
                   for part in attention.qkv(x).chunk(3, dim=-1))
        a = torch.matmul(q, k.transpose(-2, -1)) / original * 1.01
        p = attention.drop(F.softmax(a.masked_fill(mask, float("-inf")), dim=-1))
        return attention.proj(torch.matmul(p, v).transpose(1, 2).reshape(b, s, h))

    attention.forward = forward


def wrong_activation(expert):
    expert.forward = lambda x: expert.down(F.gelu(expert.up(x)))


def plant_gpt(model):
    scaled(model.blocks[0].mlp.fc1)
    model.blocks[1].ln1.eps = 1e-3
    wrong_scores(model.blocks[1].attn)
    wrong_backward(model.blocks[0].mlp.act)
    wrong_weight(model.head)


def plant_cnn(model):
    scaled(model.conv1)
    model.bn.eps = 1e-3
    wrong_backward(model.relu)
    model.pool.forward = lambda x: F.avg_pool2d(x, 2)
    wrong_weight(model.fc)


def plant_moe(model):
    wrong_weight(model.embed)
    scaled(model.mixtures[0].gate)
    wrong_activation(model.mixtures[0].experts[2])
    wrong_backward(model.mixtures[1].experts[1].down)
    model.norms[1].eps = 1e-3


MODELS = {"gpt": (TinyGPT, plant_gpt), "cnn": (SmallCNN, plant_cnn), "moe": (SmallMoE, plant_moe)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--record")
    parser.add_argument("--isolate", nargs=2)
    given = parser.parse_args()
    debugger = None
    if given.record or given.isolate:
        from msprobe.pytorch import PrecisionDebugger
        debugger = (PrecisionDebugger(dump_path=given.record, task="tensor", level="L0", step=[0]) if given.record
                    else PrecisionDebugger.isolate(*given.isolate))
    torch.manual_seed(3)
    make, plant = MODELS[given.model]
    model = make()
    if given.faults:
        plant(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        before = [value.clone() for value in model.state_dict().values()] + [torch.get_rng_state()]
        if debugger:
            debugger.start(model)
        if given.model == "cnn":
            loss = F.nll_loss(model(torch.rand(4, 3, 8, 8)), torch.randint(0, 10, (4,)))
        else:
            loss = F.cross_entropy(model(torch.randint(0, 32, (4, 8))).flatten(0, -2), torch.randint(0, 32, (32,)))
        optimizer.zero_grad()
        loss.backward()
        if debugger:
            debugger.stop()
        optimizer.step()
        if debugger:
            debugger.step()
        if given.isolate and step == 0:
            after = list(model.state_dict().values()) + [torch.get_rng_state()]
            assert all(map(torch.equal, before, after)), "something is not as it was before the step"
            assert not any(parameter._backward_hooks for parameter in model.parameters())
        print("%.9f" % loss.item())


if __name__ == "__main__":
    main()
