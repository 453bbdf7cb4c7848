"""The training of the golden dumps: one step of a small network in MindSpore.   usage: train.py LEVEL TASK MODE FOLDER

The dumps of the Python tool were made with it too: README.md has the commands.
"""
import json
import os
import sys

import mindspore as ms
import mindspore.mint.nn.functional as F
import numpy as np
from mindspore import Tensor, mint, nn, ops

level, task, mode, folder = sys.argv[1:]
ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)

from msprobe.mindspore import PrecisionDebugger  # noqa: E402


class Block(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,))
        self.up, self.down = nn.Dense(width, 2 * width), nn.Dense(2 * width, width)
        self.act = nn.GELU()
        self.add = ops.Add()

    def construct(self, x):
        return self.add(x, self.down(self.act(self.up(self.norm(x)))))


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inlet = mint.nn.Linear(6, 8)
        self.blocks = nn.CellList([Block(8), Block(8)])
        self.head = nn.Dense(8, 3)

    def construct(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        first, second = ops.split(x, 4, axis=1)
        x = mint.cat([second, first], dim=1)
        return self.head(F.relu(x) * 2.0 + 1)


generator = np.random.RandomState(0)
network = Network()
for _, parameter in network.parameters_and_names():
    parameter.set_data(Tensor(generator.randn(*parameter.shape).astype(np.float32) * 0.3))
x = Tensor(generator.randn(5, 6).astype(np.float32))
labels = Tensor(np.array([0, 1, 2, 1, 0], np.int32))
optimizer = nn.Adam(network.trainable_params(), 0.01)
cross_entropy = nn.CrossEntropyLoss()
step = ms.value_and_grad(lambda x, labels: cross_entropy(network(x), labels), None, optimizer.parameters)

with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
    json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"), task: {"summary_mode": mode}}, file)
debugger = PrecisionDebugger(os.path.join(folder, "config.json"))
debugger.start(network)
loss, gradients = step(x, labels)
optimizer(gradients)
debugger.stop()
debugger.step()
