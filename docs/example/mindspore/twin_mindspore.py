"""The network of twin_torch.py for MindSpore: the same weights, the same data, trained for two steps.

--wrong: one bias of the second block is 1 % too large.
"""
import sys

import mindspore as ms
import mindspore.mint.nn.functional as F
import numpy as np
from mindspore import Tensor, mint, nn


class Block(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.up, self.down = nn.Dense(width, 2 * width), nn.Dense(2 * width, width)

    def construct(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Dense(6, 8)
        self.blocks = nn.CellList([Block(8), Block(8)])
        self.head = nn.Dense(8, 3)

    def construct(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return mint.tanh(self.head(mint.matmul(F.softmax(mint.matmul(x, x.T), dim=-1), x)))


generator = np.random.RandomState(3)
net = Network()
for _, parameter in net.parameters_and_names():
    parameter.set_data(Tensor(generator.uniform(-0.4, 0.4, parameter.shape).astype(np.float32)))
if "--wrong" in sys.argv:
    net.blocks[1].up.bias.set_data(net.blocks[1].up.bias * 1.01)
optimizer = nn.SGD(net.trainable_params(), 0.05)
step = ms.value_and_grad(lambda x: mint.mean(net(x)), None, net.trainable_params())
for number in range(2):
    loss, gradients = step(Tensor(generator.uniform(-1, 1, (5, 6)).astype(np.float32)))
    optimizer(gradients)
    print("step %d: loss %.4f" % (number, float(loss)))
