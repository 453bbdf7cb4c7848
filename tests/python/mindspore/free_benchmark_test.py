"""The task free_benchmark with MindSpore: the real one where it is installed, else a stand-in."""
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
from mindspore import Tensor, nn, ops
from msprobe.mindspore import PrecisionDebugger

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(3, 4), nn.Dense(4, 2)
    def construct(self, x):
        return ops.relu(self.second(ops.relu(self.first(x))))

net = Net()
for path, parameter in net.parameters_and_names():
    parameter.name = path  # as the real one has it
    parameter.set_data(Tensor(np.linspace(-1, 1, int(np.prod(parameter.shape)), dtype="float32").reshape(parameter.shape)))
optimizer = nn.SGD(net.trainable_params(), 0.1)
step = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
x = Tensor(np.linspace(-2, 3, 15, dtype="float32").reshape(5, 3))
def train(debugger=None):
    seen = []
    for _ in range(2):
        if debugger: debugger.start()
        loss, gradients = step(x)
        if debugger: debugger.stop()
        optimizer(gradients)
        if debugger: debugger.step()
        seen += [loss.asnumpy().copy()] + [gradient.asnumpy().copy() for gradient in gradients]
    return seen + [parameter.asnumpy().copy() for parameter in net.trainable_params()]
""" % PLACE


class FreeBenchmark(ShimCase):
    def rows(self, dump, step=0):
        with open(dump.path("step%d" % step, "rank", "free_benchmark.csv"), encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def test_rows_have_the_form_of_the_python_tool_and_the_training_does_not_change(self):
        section = {"pert_mode": "change_value", "list": ["mindspore.ops.relu"]}
        runs = [self.run_code("print('bits', b''.join(value.tobytes() for value in train(%s)).hex())\n" % debugger, task="free_benchmark",
                              level="L1", prologue=PROLOGUE, section=section) for debugger in ("", "PrecisionDebugger('config.json')")]
        plain, seen = ([line for line in run.output.splitlines() if line.startswith("bits")] for run in runs)
        self.assertEqual(plain, seen)
        self.assertEqual(len(plain), 1)
        dump = runs[1]
        rows = self.rows(dump)
        self.assertEqual(list(rows[0]), ["rank", "pert_type", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"])
        self.assertEqual((rows[0]["api_name"], rows[0]["rank"], rows[0]["dtype"], rows[0]["shape"], rows[0]["output_index"]),
                         ("Functional.relu.0", "", "Float32", "(5, 4)", ""))
        self.assertGreater(float(rows[0]["max_rel"]), 0.01)
        self.assertEqual(self.rows(dump, 1)[0]["step"], "1")
        self.assertRegex(dump.output, "4 calls checked, [2-4] unstable")

    def test_what_cannot_be_changed_runs_once(self):
        dump = self.run_code("train(PrecisionDebugger('config.json'))\n", task="free_benchmark", level="L1", prologue=PROLOGUE,
                             section={"pert_mode": "improve_precision", "list": ["relu"]})
        self.assertIn("0 calls checked, 0 unstable", dump.output)
        self.assertIn("(nothing to change)", dump.output)

    def test_numbers_beside_tensors_in_a_result_have_no_verdict(self):
        dump = self.run_code("""
from types import SimpleNamespace
from msprobe.mindspore import values
from msprobe.mindspore.free_benchmark.comparison import Comparison
values.configure()
comparison = Comparison(SimpleNamespace(stage="forward", compat=False, mode="change_value"))
verdicts = comparison.by_ratio((3, x, 1.5, None), (4, x * 2, 2.5, None))
print("verdicts", [(verdict.index, verdict.consistent, verdict.ratio) for verdict in verdicts])
""", task="free_benchmark", level="L1", prologue=PROLOGUE, section={"pert_mode": "change_value"})
        self.assertIn("verdicts [(1, False, 2.0)]", dump.output)

    def test_a_mode_that_it_does_not_have_is_an_error_with_its_place(self):
        dump = self.run_code("PrecisionDebugger('config.json')\n", task="free_benchmark", level="L1", prologue=PROLOGUE, ends_well=False,
                             section={"pert_mode": "to_cpu", "fuzz_device": "cpu"})
        self.assertIn("config.json line 1", dump.output)
        self.assertIn("which MindSpore does not have", dump.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
