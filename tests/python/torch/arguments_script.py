"""Calls functions with every kind of argument under a capture configuration.

usage: arguments_script.py --config FILE [--perturb MODULE]
"""
import argparse
import collections
import dataclasses

import numpy as np
import torch
import torch.nn as nn

from msprobe.pytorch import PrecisionDebugger, seed_all

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--perturb", default="")
given = parser.parse_args()
torch.set_num_threads(1)
seed_all(seed=1234)
debugger = PrecisionDebugger(config_path=given.config)

Pair = collections.namedtuple("NT", ["first", "second"])
INFINITY = float("inf")
NAN = float("nan")


@dataclasses.dataclass
class Fields:
    alpha: torch.Tensor
    beta: int


class Odd:
    pass


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x, pair, cfg, flag=True, none=None, *, kw=None, nt=None, dc=None, odd=None,
                arr=None):
        y = self.lin(x)
        return {"y": y, "pair": (pair[0] * 2, [pair[1], None]), "nt": Pair(y + 1, 3), "n": None}


class Top(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = Multi()
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        r = self.m(x, (x, x.sum()),
                   {"a": 1, "b": [x, "str", 2.5, None, ...], 3: slice(0, 2, None)}, False, kw=x * 2,
                   nt=Pair(x, 7), dc=Fields(x, 5), odd=Odd(), arr=np.arange(4.0))
        r = self.m(x, (x, x.sum()), {}, odd=np.float32(1.5), arr=np.int64(3), kw=torch.float16,
                   nt=torch.Size([2, 3]), dc=torch.device("cpu"))
        return r["y"]


def tensor(values, **options):
    return torch.tensor(values, **options)


CALLS = [
    lambda: torch.abs(tensor([1.0, NAN, INFINITY, -INFINITY])),
    lambda: torch.abs(tensor([INFINITY, 1.0])),
    lambda: torch.abs(torch.empty(0, 3)),
    lambda: torch.abs(tensor(-2.5)),
    lambda: torch.abs(tensor(NAN)),
    lambda: torch.logical_not(tensor(True)),
    lambda: torch.logical_not(tensor([True, False])),
    lambda: torch.abs(tensor([-128, 5], dtype=torch.int8)),
    lambda: torch.add(tensor([200, 5], dtype=torch.uint8), 1),
    lambda: torch.abs(tensor([2**53 + 1, 3])),
    lambda: torch.abs(tensor([1e300, 2.0], dtype=torch.float64)),
    lambda: torch.abs(tensor(1e300, dtype=torch.float64)),
    lambda: torch.abs(tensor([3 + 4j, 1j])),
    lambda: torch.abs(tensor(3 + 4j)),
    lambda: torch.abs(tensor([60000.0, 60000.0], dtype=torch.float16)),
    lambda: torch.abs(tensor([1.0, 3.0, 5.1], dtype=torch.bfloat16)),
    lambda: torch.abs(torch.arange(6.0).reshape(2, 3).t()),
    lambda: torch.abs(torch.ones(1, 3).expand(2, 3)),
    lambda: torch.dequantize(torch.quantize_per_tensor(tensor([1.0, 2.0]), 0.1, 0, torch.quint8)),
    lambda: torch.abs(nn.Parameter(torch.ones(2))),
    lambda: torch.sum(torch.ones(3), dim=0, dtype=torch.float64),
    lambda: torch.ones(2, 3).view(torch.Size([3, 2])),
    lambda: torch.ones(2, 3).view(3, 2),
    lambda: torch.arange(12.0).reshape(3, 4)[..., 1:3],
    lambda: torch.arange(12.0).reshape(3, 4)[None, tensor([0, 2]), ::2],
    lambda: torch.zeros(3).__setitem__(slice(0, 2), 1.5),
    lambda: torch.max(tensor([[1.0, 2.0], [3.0, 0.0]]), dim=1),
    lambda: torch.cat([torch.ones(2), torch.zeros(1)], dim=0),
    lambda: torch.ones(1, 2, 2, 2).contiguous(memory_format=torch.channels_last),
    lambda: torch.ones(2).to("cpu"),
    lambda: torch.ones(2).to(device=torch.device("cpu")),
    lambda: torch.split(torch.arange(4.0), 2),
    lambda: torch.clamp(torch.ones(2), min=-INFINITY, max=INFINITY),
    lambda: torch.einsum("ij,jk->ik", torch.ones(2, 2), torch.ones(2, 2)),
    lambda: torch.mul(torch.ones(2), np.float32(2.5)),
    lambda: torch.where(tensor([True, False]), torch.ones(2), torch.zeros(2)),
    lambda: torch.add(input=torch.ones(2), other=torch.ones(2), alpha=2),
    lambda: torch.ones(2).add_(1).mul_(3),
    lambda: torch.ones(2).__eq__(None),
    lambda: bool(torch.ones(1) > 0),
    lambda: torch.norm(torch.ones(2)),
]

model = Top()
if given.perturb:
    with torch.no_grad():
        dict(model.named_modules())[given.perturb].weight.mul_(1 + 1e-3)
debugger.start(model=model)
x = torch.arange(6.0).reshape(2, 3).requires_grad_()
model(x).sum().backward()
for call in CALLS:
    call()
debugger.stop()
debugger.step()
