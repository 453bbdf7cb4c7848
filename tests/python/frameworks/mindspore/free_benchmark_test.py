"""free_benchmark with MindSpore: it changes no bit of a training, finds what is unstable, and its rows are those of the
Python tool (golden/README.md)."""
import csv
import glob
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
from training_test import MindSporeCase  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
PROLOGUE = """
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
ms.set_context(mode=ms.PYNATIVE_MODE)
from msprobe.mindspore import PrecisionDebugger
debugger = PrecisionDebugger("config.json")
x = Tensor(np.array([[1.5, -2.5], [3.5, 0.25]], np.float32))
half = x.astype(ms.float16)
def checked(*functions):
    results = []
    for function in functions:
        debugger.start()
        results.append(function())
        debugger.stop()
    debugger.step()
    return results
"""


def rows_of(folder):
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "step*", "rank*", "free_benchmark*.csv"))):
        if "details" not in path:
            with open(path, encoding="utf-8", newline="") as file:
                found += list(csv.DictReader(file))
    return found


class Harmless(MindSporeCase):
    """Losses, gradients, parameters and random state of a training with dropout and an optimizer."""
    subject = "free_benchmark"
    script = "transformer.py"
    stages = ("forward", "backward")

    def _launch(self, observer, folder, environment):
        _, mode, stage = observer.split(":")
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"task": "free_benchmark", "dump_path": os.path.join(folder, "rows"),
                       "free_benchmark": {"pert_mode": mode, "fuzz_stage": stage}}, file)
        command = [harness.MSPROBE, "-f", "mindspore", "free_benchmark", "-c", config, "--", sys.executable, self._path()]
        return self._run(command + list(self.arguments), folder, environment)

    def check_observed(self, observers, run):
        words = [line for line in run.output.splitlines() if "calls checked" in line]
        self.assertEqual(len(words), 1, run.output[-3000:])
        self.assertGreater(int(words[0].split(" calls checked")[0].split()[-1]), 100, run.output[-3000:])
        if "change_value" in observers:
            self.assertGreater(len(rows_of(os.path.join(run.folder, "rows"))), 3, run.output[-3000:])

    def test_check_changes_no_bit(self):
        self.check_harmless(["launch free:change_value:forward", "launch free:no_change:forward",
                             "launch free:change_value:backward"], row="free_benchmark, the bits of a training")


class Rows(harness.FrameworkCase):
    framework = "mindspore"
    subject = "free_benchmark, rows of the Python tool"

    def rows(self, stage, mode):
        folder = self.folder()
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"task": "free_benchmark", "dump_path": os.path.join(folder, "rows"), "level": "L1",
                       "free_benchmark": {"pert_mode": mode, "fuzz_stage": stage, "list": [], "compat": True}}, file)
        run = subprocess.run([sys.executable, os.path.join(GOLDEN, "free_benchmark.py"), config], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout.decode())
        return rows_of(os.path.join(folder, "rows"))

    def check(self, stage, mode, further):
        with open(os.path.join(GOLDEN, "free_benchmark", "%s_%s.csv" % (stage, mode)), encoding="utf-8", newline="") as file:
            golden = list(csv.DictReader(file))
        key = lambda row: (row["step"], row["api_name"], row["output_index"])  # noqa: E731
        found = {key(row): row for row in self.rows(stage, mode)}
        self.assertGreater(len(golden), 5)
        for row in golden:
            ours = found.pop(key(row), None)
            self.assertIsNotNone(ours, row)
            expected, actual = float(row.pop("max_rel")), float(ours.pop("max_rel"))
            self.assertEqual(ours, row)
            self.assertAlmostEqual(actual, expected, delta=1e-4 * (1 + expected), msg=str(row))  # kernels differ by processor
        self.assertEqual({name.rpartition(".")[0] for _, name, _ in found}, set(further))

    def test_all(self):
        with self.checking("works"):
            self.check("forward", "change_value", ("Tensor.reshape",))  # not of the Python tool's list
            self.check("backward", "change_value", ())


class Behaviour(harness.FrameworkCase):
    framework = "mindspore"
    subject = "free_benchmark, what it does"

    def run_code(self, code, **section):
        folder = self.folder()
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"task": "free_benchmark", "dump_path": "rows", "free_benchmark": section}, file)
        run = subprocess.run([sys.executable, "-c", PROLOGUE + code], cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=300)
        self.output = run.stdout.decode()
        self.assertEqual(run.returncode, 0, self.output)
        return rows_of(os.path.join(folder, "rows"))

    def test_all(self):
        with self.checking("works"):
            for name in sorted(name for name in dir(self) if name.startswith("check_")):
                with self.subTest(name):
                    getattr(self, name)()

    def check_full_names_and_parts_of_names_select(self):
        rows = self.run_code("checked(lambda: ops.exp(x), lambda: mint.exp(x), lambda: x.exp(), lambda: ops.tan(x))\n",
                             pert_mode="change_value", list=["mindspore.ops.exp", "mindspore.Tensor.exp", "l.tan"])
        self.assertEqual([row["api_name"] for row in rows], ["Functional.exp.0", "Tensor.exp.0", "Functional.tan.0"])

    def check_what_is_written_in_place_is_written_once(self):
        rows = self.run_code("""
parameter = Parameter(Tensor(np.array([1.5, 2.5], np.float32)), name="p")
checked(lambda: ops.assign_add(parameter, Tensor(np.array([1, 1], np.float32))), lambda: ops.assign_sub(parameter, x[0]))
assert parameter.asnumpy().tolist() == [1.0, 6.0], parameter
""", pert_mode="no_change")
        self.assertEqual(rows, [])
        self.assertIn("2 calls checked", self.output)

    def check_a_writer_that_nobody_knows_is_found_at_its_first_call(self):
        self.run_code("""
import msprobe.mindspore.free_benchmark.calls as calls
calls._WRITING_BEGINNINGS = ("none of them",)
parameter = Parameter(Tensor(np.array([1.5, 2.5], np.float32)), name="p")
one = Tensor(np.array([1, 1], np.float32))
checked(lambda: ops.assign_add(parameter, one), lambda: ops.assign_add(parameter, one))
assert parameter.asnumpy().tolist() == [3.5, 4.5], parameter
""", pert_mode="no_change")
        self.assertIn("1 calls checked", self.output)
        self.assertIn("1 calls (it writes into its arguments, which was not known before its first call)", self.output)

    def check_random_functions_run_once(self):
        self.run_code("""
ms.set_seed(3)
plain = [ops.dropout(x, 0.5).asnumpy(), ops.randn(2, 2).asnumpy()]
ms.set_seed(3)
seen = checked(lambda: ops.dropout(x, 0.5), lambda: ops.randn(2, 2), lambda: ops.exp(x))
for left, right in zip(plain, seen):
    assert np.array_equal(left, right.asnumpy()), (left, right)
""", pert_mode="no_change")
        self.assertIn("(it draws random numbers)", self.output)
        self.assertIn("1 calls checked", self.output)

    def check_bfloat16_is_changed_in_its_own_bits(self):
        self.run_code("""
from msprobe.mindspore.free_benchmark.perturbation import Perturbation
class Settings:
    mode, noise_ulps, all_inputs, compat = "bit_noise", 0, False, False
brain = Tensor(np.array([1.0, -2.0], np.float32)).astype(ms.bfloat16)
(changed,), _ = Perturbation(Settings).applied((brain,), {})
assert changed.dtype == ms.bfloat16
assert changed.float().asnumpy().tolist() == [1.0078125, -2.015625], changed
assert brain.float().asnumpy().tolist() == [1.0, -2.0]
""", pert_mode="bit_noise")

    def check_fix_hands_the_better_result_on_with_its_gradient(self):
        self.run_code("""
values = Tensor(np.array([[3.0, 0.1], [1000.0, 0.7]], np.float16))
wide = np.tan(values.asnumpy().astype(np.float32))
(fixed, of_fixed), = checked(lambda: ms.value_and_grad(lambda v: ops.tan(v).astype(ms.float32).sum())(values))
assert float(fixed) == float(wide.astype(np.float16).astype(np.float32).sum()), (fixed, wide)
assert np.abs(of_fixed.asnumpy()).min() > 0.5 and of_fixed.dtype == ms.float16, of_fixed
""", pert_mode="improve_precision", handler_type="fix", list=["tan"])
        self.assertIn("1 results were replaced", self.output)

    def check_a_function_that_fails_the_second_time_leaves_the_result(self):
        self.run_code("""
import msprobe.mindspore.free_benchmark.perturbation as perturbation
def fails(*_):
    raise RuntimeError("no second time")
perturbation.Perturbation.applied = fails
plain = ops.exp(x).asnumpy()
assert np.array_equal(checked(lambda: ops.exp(x))[0].asnumpy(), plain)
""", pert_mode="add_noise")
        self.assertIn("Functional.exp.0 is not checked", self.output)
        self.assertIn("1 calls (the second run failed)", self.output)

    def check_to_cpu_is_refused_with_the_place(self):
        folder = self.folder()
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            file.write('{"task": "free_benchmark", "dump_path": "x",\n"free_benchmark": {"pert_mode": "to_cpu", "fuzz_device": "cpu"}}')
        run = subprocess.run([harness.MSPROBE, "-f", "mindspore", "free_benchmark", "-c", config, "--", "true"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 2)
        self.assertIn("config.json line 2", run.stdout.decode())
        self.assertIn("which MindSpore does not have", run.stdout.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
