"""vLLM's engine: a batch of requests is a step."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Serve(harness.TrainingCase):
    framework = "vllm"
    subject = "LLM.generate, Llama, requests batched together, sampled"
    script = "serve.py"
    imports = ("torch", "torch_training", "only_what_is_installed", "transformers", "vllm", "vllm.entrypoints.llm")
    fault = "model.layers.1.mlp.down_proj"
    # Without an optimizer there is nothing to monitor.
    observers = [observer for observer in harness.API if "monitor" not in observer]
    usual = ["dump:mix:tensor", "dump:L0:statistics:md5"]
    measured = "dump:mix:statistics"

    def test_everything(self):
        self.check_everything()


if __name__ == "__main__":
    unittest.main(verbosity=2)
