"""Models of many families, trained with PyTorch alone."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402


class Gpt(harness.TrainingCase):
    framework = "torch"
    subject = "GPT"
    script = "train.py"
    arguments = ("nano_gpt",)
    fault = "blocks.1.mlp.0"
    quick, not_quick = True, ()

    def test_all(self):
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
