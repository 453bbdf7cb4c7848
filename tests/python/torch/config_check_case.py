"""Trainings that ConfigChecker records, and the packs that it leaves."""
import json
import os
import zipfile

from shim_case import HERE, ShimCase

PROLOGUE = """
import os, sys, zipfile
sys.path.insert(0, %r)
from msprobe.core.config_check import ConfigChecker
ConfigChecker.apply_patches("pytorch")
import random
import torch
import torch.nn as nn
torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
    def forward(self, x, *rest, **named):
        return self.second(torch.relu(self.first(x)))
""" % os.path.dirname(HERE)

TRAINING = """
torch.manual_seed(%(seed)s)
numbers = [random.random() for _ in range(2)]
%(call)s
model = Net()
%(change)s
ConfigChecker(model, shell_path=["train.sh"], output_zip_path="pack.zip", fmk="pytorch")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((5, 3), %(data)s + step), mask=torch.ones(5)).sum().backward()
    optimizer.step()
"""


class Pack:
    """A recorded zip: the last member of a name counts."""

    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            self.members = archive.infolist()
            self.names = [member.filename for member in self.members]
            self.content = {name: archive.read(name) for name in self.names}

    def load(self, name):
        return json.loads(self.content[name].decode("ascii"))

    def dataset(self, step=0, rank=0):
        return self.load("dataset/step%d/rank%d/dataset.json" % (step, rank))

    def weights(self, step=0, rank=0):
        return self.load("weights/step%d/rank%d/weight.json" % (step, rank))

    def random(self, rank=0):
        return self.load("random/rank%d.json" % rank)

    def steps(self, rank=0):
        return [name for name in self.names
                if name.startswith("dataset/") and "/rank%d/" % rank in name]


class ConfigCheckCase(ShimCase):
    def record(self, code, prologue=PROLOGUE, environment=None, folder=None):
        """(pack or None, what was said)"""
        run = self.run_code(code, prologue=prologue, environment=environment, folder=folder)
        self.last_folder = run.folder
        path = os.path.join(run.folder, "pack.zip")
        return (Pack(path) if os.path.exists(path) else None), run.output

    def train(self, **changes):
        folder = self.folder()
        with open(os.path.join(folder, "train.sh"), "w") as file:
            file.write("torchrun train.py --lr 0.1 --seq-length 16\n")
        values = dict(seed=1, call="torch.rand(2)", change="", data="1.0", environment=None)
        values.update(changes)
        self.record(TRAINING % values, folder=folder, environment=values["environment"])
        return os.path.join(folder, "pack.zip")

    def features(self, *values):
        return dict(zip(("max", "min", "mean", "norm"), values))
