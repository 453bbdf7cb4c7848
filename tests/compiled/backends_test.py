#!/usr/bin/env python3
"""Backends that run operators one by one, versions that are built otherwise, and level L2k. Needs torch.compile, and no compiler of C++.

PyTorch 1.13 of Debian has no torch.compile: exit code 77, which is a skipped test. With another one: PYTHONPATH=build/python tests/compiled/backends_test.py
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import torch

SCRIPT = """
import sys
import torch

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
compiled = torch.compile(model, backend=%r)
for _ in range(2):
    loss = compiled(torch.randn(5, 6)).square().mean()
    loss.backward()
print(loss.item(), [float(item.grad.sum()) for item in model.parameters()])
"""


def run(text, *, before="", after="", environment=None):
    made = subprocess.run([sys.executable, "-c", before + text + after], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **(environment or {})), universal_newlines=True)
    return made.returncode, made.stdout, made.stderr


class Backends(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def checked(self, text, before=""):
        start = "from msprobe.pytorch import compile_check\ncompile_check.start(%r)\n" % self.folder
        code, out, err = run(text, before=before + start, after="compile_check.stop()\n")
        self.assertEqual(code, 0, err)
        path = os.path.join(self.folder, "compile_check.csv")
        rows = []
        if os.path.exists(path):
            with open(path, newline="") as file:
                rows = list(csv.DictReader(file))
        return out, err, rows

    def test_operators_of_each_backend_are_right_and_nothing_changes(self):
        for backend, graphs in (("aot_eager", {"0/0 forward", "0/0 backward"}), ("eager", {"0/0 forward"}),
                                ("aot_eager_decomp_partition", {"0/0 forward", "0/0 backward"})):
            with self.subTest(backend=backend):
                plain = run(SCRIPT % backend)
                out, err, rows = self.checked(SCRIPT % backend)
                self.assertEqual(out, plain[1])
                self.assertEqual({row["graph"] for row in rows}, graphs, err)
                self.assertEqual({row["verdict"] for row in rows}, {"right"}, rows)
                self.assertIn("aten.addmm", {row["kernel"] for row in rows})
                self.assertTrue({"0", "1", "2"} <= {row["module"] for row in rows}, rows)

    def test_an_operator_that_is_wrong_is_named(self):
        wrong = textwrap.dedent("""
            import torch
            library = torch.library.Library("aten", "IMPL")
            def gelu(x, *, approximate="none"):  # wrong in float32 only
                half = x.sigmoid() if x.dtype == torch.float32 else (1 + (x * 0.5 ** 0.5).erf()) / 2
                return x * half
            library.impl("gelu", gelu, "CPU")
        """)
        _, err, rows = self.checked(SCRIPT % "aot_eager", wrong)
        self.assertEqual([(row["kernel"], row["module"]) for row in rows if row["verdict"] == "wrong"], [("aten.gelu", "1")], err)

    def test_versions_that_are_built_otherwise(self):
        for what, text in (("inductor", "import torch._inductor.compile_fx as place\ndel place._compile_fx_inner\n"),
                           ("backends eager", "import torch._dynamo.backends.debugging as place\ndel place.boxed_nop\n")):
            with self.subTest(what=what):
                out, err, _ = self.checked("print('trained')\n", text)
                self.assertEqual(out, "trained\n")
                self.assertIn(what, err)
                self.assertIn("the program goes on", err)


class LevelOfKernels(unittest.TestCase):
    """A dump of compiled graphs, and its comparison."""

    def dumped(self, folder, backend, task="statistics"):
        config = os.path.join(folder, "config.json")
        with open(config, "w") as file:
            json.dump({"task": task, "level": "L2k", "dump_path": os.path.join(folder, backend), task: {"summary_mode": "statistics"} if task != "tensor" else {}},
                      file)
        code, out, err = run(SCRIPT.replace("loss =", "debugger.start()\n    loss =").replace("loss.backward()", "loss.backward()\n    debugger.stop()\n    debugger.step()")
                             % backend, before="from msprobe.pytorch import PrecisionDebugger\ndebugger = PrecisionDebugger(%r)\n" % config)
        self.assertEqual(code, 0, err)
        return out, os.path.join(folder, backend)

    def test_every_node_is_a_call_with_its_values(self):
        with tempfile.TemporaryDirectory() as folder:
            out, dump = self.dumped(folder, "aot_eager", "tensor")
            self.assertEqual(out, run(SCRIPT % "aot_eager")[1])
            found = [os.path.join(place, name) for place, _, names in os.walk(dump) for name in names]
            with open(next(name for name in found if name.endswith("step1/proc%d/dump.json" % 0) or name.endswith("dump.json") and "step1" in name)) as file:
                document = json.load(file)
            self.assertEqual(document["level"], "L2k")
            names = list(document["data"])
            self.assertTrue(any(name.startswith("Compiled.0_0_forward.") for name in names), names)
            self.assertTrue(any(name.startswith("Compiled.0_0_backward.") for name in names), names)
            gelu = next(value for name, value in document["data"].items() if ".gelu" in name and "forward" in name)
            self.assertEqual(gelu["output"][0]["shape"], [5, 8])
            self.assertTrue([name for name in found if name.endswith(".npy") or name.endswith(".pt")])


if __name__ == "__main__":
    if not hasattr(torch, "compile"):
        print("skipped: PyTorch %s has no torch.compile" % torch.__version__)
        sys.exit(77)
    unittest.main()
