"""The task grad_probe with MindSpore: the real one where it is installed, else a stand-in."""
import csv
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "torch")]

from place import PLACE  # noqa: E402
from shim_case import ShimCase  # noqa: E402

PROLOGUE = """
import os, sys
sys.path[:0] = %r
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn
from msprobe.mindspore import PrecisionDebugger

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(3, 4), nn.Dense(4, 2)
    def construct(self, x):
        return self.second(self.first(x))

net = Net()
for path, parameter in net.parameters_and_names():
    parameter.name = path  # as the real one has it
optimizer = nn.SGD(net.trainable_params(), 0.1)
step = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
def train(times):
    for _ in range(times):
        optimizer(step(Tensor(np.ones((5, 3), "float32")))[1])
debugger = PrecisionDebugger("config.json")
""" % PLACE


class GradProbe(ShimCase):
    def test_gradients_that_an_optimizer_is_given_are_written(self):
        dump = self.run_code("""
            debugger.monitor(optimizer)
            train(2)
            debugger.stop()
            import numpy
            assert numpy.load("dump/rank0/step1/second.bias.npy").tolist() == [True, True]
        """, task="grad_probe", prologue=PROLOGUE)
        with open(dump.path("rank0", "grad_summary_0.csv"), encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["param_name"] for row in rows], ["first.weight", "first.bias", "second.weight", "second.bias"])
        self.assertEqual((rows[3]["max"], rows[3]["shape"]), ("5.0", "[2]"))

    def test_what_is_no_optimizer_is_an_error_of_the_script(self):
        dump = self.run_code("debugger.monitor(net.first.weight)\n", task="grad_probe", prologue=PROLOGUE, ends_well=False)
        self.assertIn("monitor() takes the optimizer", dump.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
