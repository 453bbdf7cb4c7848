"""One network in PyTorch and in MindSpore, with the same weights and data: compare finds no difference beyond noise, and
the layer that was changed. The PyTorch side runs under Debian's Python, whose package PyTorch is."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402

EXAMPLE = os.path.join(harness.HERE, "..", "..", "..", "docs", "example", "mindspore")
TORCH = "/usr/bin/python3"


def has_torch():
    return subprocess.run([TORCH, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0


class Twins(harness.FrameworkCase):
    framework = "mindspore"
    subject = "compare with PyTorch"

    def capture(self, python, *script):
        out = os.path.join(self.folder(), "dump")
        framework = ["-f", "mindspore"] if python != TORCH else []
        self.msprobe(*framework, "dump", "--dump_path", out, "--level", "mix", "--", python,
                     os.path.join(EXAMPLE, script[0]), *script[1:])
        return os.path.join(out, "step0")

    def compare(self, target, golden, *mapping, **options):
        out = self.folder()
        self.said = self.msprobe("-f", "mindspore", "compare", target, golden, "-o", out, *mapping, **options)
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
            return json.load(file)["pairs"][0]

    def test_all(self):
        with self.checking("works"):
            if not has_torch():
                raise unittest.SkipTest("no PyTorch for " + TORCH)
            golden = self.capture(TORCH, "twin_torch.py")
            right = self.capture(sys.executable, "twin_mindspore.py")
            wrong = self.capture(sys.executable, "twin_mindspore.py", "--wrong")
            cells = os.path.join(EXAMPLE, "cells.yaml")
            for mapping in (["-cm", cells], ["-am"], ["-lm"]):
                pair = self.compare(right, golden, *mapping)
                self.assertIsNone(pair["first_divergence"], self.said)
                self.assertIn("AGREE", self.said)
                self.assertIn(" 0 differ, 0 without values", self.said)
            for mapping in (["-cm", cells], ["-lm"]):
                pair = self.compare(wrong, golden, *mapping)
                self.assertEqual(pair["first_divergence"]["layer"].split(" ")[0], "blocks.1.up", self.said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
