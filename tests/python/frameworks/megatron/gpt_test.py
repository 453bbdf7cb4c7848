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
    notes = True
    usual = ["dump:mix:statistics monitor", "launch monitor"]

    def check_kind(self, subject, *arguments, layer=1, received=False):
        """received: of the two stages, whose layers have the same names, only the first computes wrong; the second is told to
        have received what differs."""
        self.subject, self.arguments = subject, arguments
        self.faulty_ranks = [0] if received else None
        self.fault = "module.decoder.layers.%d.mlp.linear_fc1" % layer
        self.named_as = ["0." + self.fault, "" if received else "0." + self.fault]
        self.check_everything()

    def test_tensor_parallel(self):
        self.usual = ["dump:mix:tensor", "monitor", "launch dump:mix:statistics", "launch monitor"]
        self.check_kind("GPT, tensor parallel 2", "tensor")

    def test_pipeline_parallel(self):
        self.check_kind("GPT, pipeline parallel 2", "pipeline", received=True)

    def test_virtual_pipeline(self):
        self.check_kind("GPT, pipeline parallel 2, two chunks of the model each: start(model=[chunks])", "virtual",
                        layer=0, received=True)

    def test_optimizer_of_mixed_precision(self):
        self.check_kind("GPT, data parallel 2, bfloat16", "data", "bf16")

    def test_distributed_optimizer(self):
        self.check_kind("GPT, data parallel 2, distributed optimizer, bfloat16", "data", "distributed_optimizer", "bf16")


if __name__ == "__main__":
    unittest.main(verbosity=2)
