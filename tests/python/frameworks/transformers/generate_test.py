"""generate() of Transformers: every answer is a step."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Generate(harness.TrainingCase):
    framework = "transformers"
    script = "generate.py"
    imports = ("torch", "torch_training", "transformers", "transformers.generation", "families")
    usual = ["dump:mix:statistics", "dump:L0:tensor", "launch dump:L0:statistics"]
    observers = [observer for observer in harness.OBSERVERS if "monitor" not in observer] + usual[2:]
    measured = "dump:mix:statistics"

    def check_kind(self, subject, fault, *arguments):
        self.subject, self.fault, self.arguments = subject, fault, arguments
        self.check_everything()

    def test_with_a_growing_cache(self):
        self.check_kind("generate, growing key-value cache", "model.layers.1.mlp.up_proj", "llama", "dynamic")

    def test_with_a_static_cache(self):
        self.check_kind("generate, static key-value cache", "model.layers.1.mlp.up_proj", "llama", "static")

    def test_of_an_encoder_and_a_decoder_that_samples(self):
        self.check_kind("generate, Whisper, sampled", "model.encoder.layers.1.fc1", "whisper", "sampled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
