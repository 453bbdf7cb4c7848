"""Trains a small model for some steps under a capture configuration.

usage: train_script.py --config FILE [--model gpt|cnn] [--steps N] [--perturb MODULE] [--dtype NAME]
                       [--ckpt] [--save] [--no-opt] [--inf]
"""
import argparse
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from models import SmallCNN, TinyGPT  # noqa: E402
from msprobe.pytorch import PrecisionDebugger, seed_all  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--model", default="gpt")
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--perturb", default="")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--ckpt", action="store_true")
parser.add_argument("--save", action="store_true")
parser.add_argument("--no-opt", action="store_true")
parser.add_argument("--inf", action="store_true")
given = parser.parse_args()

torch.set_num_threads(1)
seed_all(seed=1234, mode=False)
debugger = PrecisionDebugger(config_path=given.config)
if given.model == "cnn":
    model = SmallCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
else:
    model = TinyGPT(ckpt=given.ckpt, debugger_save=debugger.save if given.save else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
modules = dict(model.named_modules())
with torch.no_grad():
    if given.perturb:
        modules[given.perturb].weight.mul_(1 + 1e-3)
    if given.inf:
        modules["blocks.1.mlp.fc2"].weight[0, 0] = float("inf")
model = model.to(getattr(torch, given.dtype))
generator = torch.Generator().manual_seed(7)
for _ in range(given.steps):
    if given.model == "cnn":
        x = torch.randn(2, 3, 8, 8, generator=generator)
        y = torch.randint(0, 10, (2,), generator=generator)
    else:
        x = torch.randint(0, 32, (2, 8), generator=generator)
        y = torch.randint(0, 32, (2, 8), generator=generator)
    debugger.start(model=model)
    out = model(x)
    if given.model == "cnn":
        loss = F.nll_loss(out, y)
    else:
        loss = F.cross_entropy(out.view(-1, 32), y.view(-1))
    if given.save:
        debugger.save(loss, "loss", save_backward=False)
    optimizer.zero_grad()
    loss.backward()
    if given.no_opt:
        debugger.stop()  # the optimizer's own calls stay out of the capture
    optimizer.step()
    if not given.no_opt:
        debugger.stop()
    debugger.step()
print("final loss", float(loss))
