"""LoRA of peft."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Lora(harness.TrainingCase):
    framework = "peft"
    script = "lora.py"
    imports = ("torch", "torch_training", "transformers", "peft")
    subject = "LoRA, Llama"
    # Not lora_B: it is zero at first, and what it computes is wrong from the second step on.
    fault = "base_model.model.model.layers.1.mlp.down_proj.lora_A.default"
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor", "launch dump:mix:statistics", "launch monitor"]

    def test_everything(self):
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
