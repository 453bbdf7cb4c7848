"""`msprobe -f mindspore dump -- python3 script.py`: scripts that know nothing of a capture."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from place import PLACE  # noqa: E402

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")

SCRIPT = """
import sys
import numpy as np
import mindspore as ms
from mindspore import nn

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(3, 4), nn.Dense(4, 2)
        if len(sys.argv) > 1:
            self.second.bias.set_data(self.second.bias + float(sys.argv[1]))

    def construct(self, x):
        return self.second(self.first(x))

class TrainOneStep(nn.Cell):
    def __init__(self, network, optimizer):
        super().__init__()
        self.network, self.optimizer = network, optimizer

    def construct(self, x):
        loss, gradients = ms.value_and_grad(lambda x: self.network(x).sum(), None,
                                            self.network.trainable_params())(x)
        self.optimizer(gradients)
        return loss

ms.set_seed(3)
net, x = Net(), ms.Tensor(np.ones((5, 3), "float32"))
"""
IN_A_LOOP = """
optimizer = nn.SGD(net.trainable_params(), 0.1)
for _ in range(2):
    loss, gradients = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    optimizer(gradients)
    print(float(loss))
"""
AS_ONE_CELL = """
step = TrainOneStep(net, nn.SGD(net.trainable_params(), 0.1))
for _ in range(2):
    print(float(step(x)))
"""
INFERENCE = """
for _ in range(3):
    print(float(net(x).sum()))
"""


class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_launcher_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def run_command(self, *command):
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(PLACE)
        run = subprocess.run(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr.decode())
        return run.stdout.decode()

    def capture(self, code, dump="dump", *arguments):
        with open(os.path.join(self.folder, "script.py"), "w") as file:
            file.write(SCRIPT + textwrap.dedent(code))
        said = self.run_command(MSPROBE, "-f", "mindspore", "dump", "--dump_path", dump, "--level",
                                "mix", "--", sys.executable, "script.py", *arguments)
        plain = self.run_command(sys.executable, "script.py", *arguments)
        self.assertEqual(said, plain)
        return sorted(os.listdir(os.path.join(self.folder, dump)))

    def names(self, step, dump="dump"):
        path = os.path.join(self.folder, dump, "step%d" % step, "rank", "dump.json")
        with open(path) as file:
            return list(json.load(file)["data"])

    def test_a_step_ends_with_the_optimizer(self):
        self.assertEqual(self.capture(IN_A_LOOP), ["step0", "step1"])
        for step in (0, 1):
            names = self.names(step)
            for name in ("Cell.first.Dense.forward.0", "Cell.second.Dense.backward.0",
                         "Cell.first.Dense.parameters_grad"):
                self.assertIn(name, names)

    def test_a_cell_that_does_it_all_is_a_step_per_call(self):
        self.assertEqual(self.capture(AS_ONE_CELL), ["step0", "step1"])
        self.assertIn("Cell.network.first.Dense.backward.0", self.names(1))
        self.assertIn("Cell.optimizer.SGD.forward.0", self.names(1))

    def test_without_an_optimizer_every_forward_is_a_step(self):
        self.assertEqual(self.capture(INFERENCE), ["step0", "step1", "step2"])

    def test_two_runs_lead_to_the_layer_that_was_changed(self):
        self.capture(INFERENCE, "a", "0")
        self.capture(INFERENCE, "b", "0.5")
        text = self.run_command(MSPROBE, "compare", "a/step0", "b/step0", "-o", "result")
        self.assertIn("DIFFERENT: it starts with a parameter of second (Dense)", text)


if __name__ == "__main__":
    unittest.main()
