"""Llama 3 of torchtitan with two processes."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Llama(harness.TrainingCase):
    framework = "torchtitan"
    script = "llama.py"
    processes = 2
    imports = ("torch",)
    environment = {"PYTHONWARNINGS": "ignore"}
    fault = "layers.1.feed_forward.w1"
    usual = ["dump:mix:tensor", "monitor dump:L0:statistics:md5", "launch dump:mix:statistics", "launch monitor"]

    def check_way(self, subject, way):
        self.subject, self.arguments = subject, (way,)
        self.check_everything()

    def test_tensor_parallel(self):
        self.check_way("Llama 3, tensor parallel 2", "tensor")

    def test_fully_sharded(self):
        self.check_way("Llama 3, FSDP2, bfloat16 parameters, 2 processes", "fsdp")


if __name__ == "__main__":
    unittest.main(verbosity=2)
