"""A loop of one's own under accelerate."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Loop(harness.TrainingCase):
    framework = "accelerate"
    script = "loop.py"
    imports = ("torch", "torch_training", "accelerate")
    subject = "Accelerator, accumulated gradients, clipping"
    fault = "layers.1.linear1"
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor", "launch dump:mix:statistics", "launch monitor"]

    def test_everything(self):
        self.check_everything()

    def test_with_autocast(self):
        self.subject, self.arguments = "Accelerator, bfloat16 autocast", ("bf16",)
        self.usual = ["dump:mix:statistics monitor"]
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
