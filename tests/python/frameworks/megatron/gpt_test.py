"""GPT of Megatron-core with two processes."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Gpt(harness.TrainingCase):
    framework = "megatron"
    module = "megatron.core"
    script = "gpt.py"
    processes = 2
    imports = ("torch",)
    environment = {"PYTHONWARNINGS": "ignore"}

    def check_kind(self, subject, *arguments, observers=("dump:mix:statistics monitor",)):
        self.subject, self.arguments = subject, arguments
        self.check_harmless(harness.OBSERVERS if harness.ALL else list(observers))

    def test_tensor_parallel(self):
        self.check_kind("GPT, tensor parallel 2", "tensor", observers=(
            "dump:mix:tensor", "monitor", "launch dump:mix:statistics", "launch monitor"))
        self.fault = "module.decoder.layers.1.mlp.linear_fc1"
        self.check_fault_named(name="0." + self.fault)

    def test_pipeline_parallel(self):
        self.check_kind("GPT, pipeline parallel 2", "pipeline")

    def test_virtual_pipeline(self):
        self.check_kind("GPT, pipeline parallel 2, two chunks of the model each: start(model=[chunks])", "virtual")

    def test_distributed_optimizer(self):
        self.check_kind("GPT, data parallel 2, distributed optimizer, bfloat16", "data", "distributed_optimizer", "bf16")


if __name__ == "__main__":
    unittest.main(verbosity=2)
