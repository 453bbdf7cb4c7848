"""A LightningModule under Lightning's Trainer."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Fit(harness.TrainingCase):
    framework = "lightning"
    script = "fit.py"
    imports = ("torch", "torch_training", "lightning")
    subject = "Trainer.fit, clipping, validation between steps"
    fault = "norm"
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor", "launch dump:mix:statistics", "launch monitor"]

    def test_everything(self):
        self.check_everything()

    def test_with_an_optimizer_of_ones_own(self):
        self.subject, self.arguments = "Trainer.fit, manual optimization", ("manual",)
        self.usual = ["dump:mix:statistics monitor"]
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
