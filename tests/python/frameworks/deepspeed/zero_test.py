"""DeepSpeed's ZeRO, stages 0 to 3, with two processes."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Zero(harness.TrainingCase):
    framework = "deepspeed"
    script = "zero.py"
    processes = 2
    imports = ("torch",)
    fault = "blocks.1.mlp.0"
    notes = True
    usual = ["dump:mix:tensor", "monitor dump:L0:statistics:md5", "launch dump:mix:statistics", "launch monitor"]
    # Kernels are neither compiled nor needed; LOCAL_SIZE says how many processes share this machine.
    environment = {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "2", "PYTHONWARNINGS": "ignore"}

    def check_stage(self, stage, *options):
        self.arguments = (str(stage),) + options
        self.subject = ", ".join(("ZeRO, stage %d, 2 processes" % stage,) + options)
        self.check_everything()

    def test_nothing_is_shared_out(self):
        self.check_stage(0, "bf16")

    def test_gradients_of_bfloat16_are_added_in_float32(self):
        self.check_stage(1, "bf16", "gradients in float32")

    def test_optimizer_states_are_shared_out(self):
        self.check_stage(1, "bf16")

    def test_gradients_are_shared_out(self):
        self.check_stage(2, "bf16")

    def test_parameters_are_shared_out(self):
        self.check_stage(3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
