"""msprobe -f mindspore run_ut and multi_run_ut: operators of a captured step run under this MindSpore again, with the PyTorch of the environment
beside it as the bench."""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402

TORCH = Path(harness.packages_of("torch"))

STEP = '''
import json, sys
import numpy as np
import mindspore as ms
from mindspore import Tensor, mint
from msprobe.mindspore import PrecisionDebugger
ms.set_context(mode=ms.PYNATIVE_MODE)
task = sys.argv[1]
with open(task + ".json", "w") as file:
    json.dump({"task": task, "level": "L1", "dump_path": task, "rank": [], "step": []}, file)
debugger = PrecisionDebugger(task + ".json")
random = np.random.default_rng(1)
data, weight = (Tensor(random.standard_normal(shape).astype(np.float32)) for shape in ((4, 8), (8, 8)))
bias = Tensor(np.ones(8, np.float32))

def net(data, weight, bias):
    hidden = mint.nn.functional.relu(mint.nn.functional.linear(data, weight, bias))
    hidden = mint.nn.functional.silu(mint.matmul(hidden, weight))
    shares = mint.nn.functional.softmax(hidden, -1)
    hidden = mint.add(mint.tanh(hidden), mint.exp(shares), alpha=2)
    return mint.sum(mint.mul(shares, hidden)) + mint.mean(mint.abs(hidden))

debugger.start()
ms.value_and_grad(net, grad_position=(0, 1, 2))(data, weight, bias)
debugger.stop()
debugger.step()
'''
OPERATORS = ["MintFunctional.linear.0", "MintFunctional.relu.0", "Mint.matmul.0", "MintFunctional.silu.0", "MintFunctional.softmax.0",
             "Mint.tanh.0", "Mint.exp.0", "Mint.add.0", "Mint.mul.0", "Mint.sum.0", "Mint.abs.0", "Mint.mean.0"]


@unittest.skipUnless((TORCH / "torch").is_dir(), "no environment with PyTorch beside this one: %s" % TORCH)
class RunUt(harness.FrameworkCase):
    framework = "mindspore"
    subject = "run_ut"

    def setUp(self):
        super().setUp()
        self.work = Path(tempfile.mkdtemp(prefix="msprobe_ut_"))
        self.addCleanup(shutil.rmtree, str(self.work))
        (self.work / "step.py").write_text(STEP)

    def capture(self, task):
        subprocess.run([sys.executable, "step.py", task], check=True, cwd=str(self.work), stdout=subprocess.DEVNULL)
        [dump] = self.work.glob(task + "/step0/rank*/dump.json")
        return dump

    def check(self, command, dump, *flags):
        """{operator: its row}"""
        out = Path(tempfile.mkdtemp(dir=str(self.work)))
        subprocess.run([harness.MSPROBE, "-f", "mindspore", command, "-api_info", str(dump), "-o", str(out), "--python", sys.executable, "-q", *flags],
                       check=True, cwd=str(self.work), env=dict(os.environ, PYTHONPATH=str(TORCH)))
        [file] = glob.glob(str(out / "accuracy_checking_result_*.csv"))
        with open(file, encoding="utf-8-sig", newline="") as rows:
            return {row["API Name"]: row for row in csv.DictReader(rows)}

    def assert_all_pass(self, rows):
        self.assertEqual(list(rows), OPERATORS)
        for name, row in rows.items():
            self.assertEqual((row["Forward Test Success"], row["Backward Test Success"]), ("pass", "pass"), (name, row["Message"]))

    def test_drawn_inputs(self):
        with self.checking("works", "run_ut, multi_run_ut: MindSpore runs each operator, forward and backward, PyTorch is the bench"):
            dump = self.capture("statistics")
            one = self.check("run_ut", dump)
            self.assert_all_pass(one)
            self.assertEqual(self.check("multi_run_ut", dump), one)

    def test_recorded_results(self):
        with self.checking("works", "run_ut of recorded tensors; a wrong element is an error of that operator"):
            dump = self.capture("tensor")
            self.assert_all_pass(self.check("run_ut", dump))
            import numpy
            [file] = dump.parent.glob("dump_tensor_data/Mint.tanh.0.forward.output.0.npy")
            changed = numpy.load(str(file))
            changed.flat[3] += 0.01
            numpy.save(str(file), changed)
            rows = self.check("run_ut", dump)
            self.assertEqual([name for name, row in rows.items() if row["Forward Test Success"] != "pass"], ["Mint.tanh.0"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
