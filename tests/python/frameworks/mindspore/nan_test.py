"""nan_analyze on a dump of MindSpore: the function that made the first NaN is named."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402

SCRIPT = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.up = nn.Dense(4, 4, weight_init="ones", bias_init="zeros")

    def construct(self, x):
        return ops.log(ops.tanh(self.up(x)) - 1.5)

class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.CellList([nn.Tanh(), Block()])
        self.head = nn.Dense(4, 2)

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

net = Network()
optimizer = nn.SGD(net.trainable_params(), 0.1)
step = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
optimizer(step(Tensor(np.ones((3, 4), np.float32)))[1])
"""


class Nan(harness.FrameworkCase):
    framework = "mindspore"
    subject = "nan_analyze"

    def test_the_function_that_made_the_first_one_is_named(self):
        with self.checking("works"):
            folder = self.folder()
            path = os.path.join(folder, "script.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(SCRIPT)
            dump = os.path.join(folder, "dump")
            self.msprobe("-q", "-f", "mindspore", "dump", "--dump_path", dump, "--level", "mix", "--", sys.executable, path)
            said = self.msprobe("nan_analyze", os.path.join(dump, "step0"), "-o", folder)
            self.assertIn("rank 0 made the first NaN, in Functional.log.0.forward", said)
            self.assertIn("Cell.blocks.1.Block.forward.0", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
