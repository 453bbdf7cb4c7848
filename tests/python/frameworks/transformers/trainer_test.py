"""Transformers' Trainer: models of seven families, each trained by its own code on random data."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402


class Family(harness.TrainingCase):
    framework = "transformers"
    script = "trainer.py"
    imports = ("torch", "torch_training", "transformers", "transformers.trainer", "families", "accelerate")
    usual = ["dump:mix:statistics monitor", "dump:L0:tensor"]


class Llama(Family):
    subject = "Trainer, Llama"
    arguments = ("llama",)
    fault = "model.layers.1.input_layernorm"
    usual = harness.USUAL

    def test_everything(self):
        self.check_everything()


class Others(Family):
    def check_family(self, subject, fault, *arguments):
        self.subject, self.fault, self.arguments = subject, fault, arguments
        self.check_everything()

    def test_accumulated_gradients_and_checkpointing_under_autocast(self):
        self.check_family("Trainer, Llama, accumulated gradients, activation checkpointing, bfloat16 autocast",
                          "model.layers.1.mlp.down_proj", "llama", "accumulating", "checkpointing", "bf16")

    def test_gpt2(self):
        self.check_family("Trainer, GPT-2", "transformer.h.1.ln_2", "gpt2")

    def test_bert(self):
        self.check_family("Trainer, BERT", "bert.encoder.layer.0.attention.output.dense", "bert")

    def test_mixtral(self):
        self.check_family("Trainer, Mixtral (mixture of experts)", "model.layers.1.post_attention_layernorm", "mixtral")

    def test_t5(self):
        self.check_family("Trainer, T5", "decoder.block.1.layer.1.EncDecAttention.v", "t5")

    def test_vit(self):
        self.check_family("Trainer, ViT", "vit.layers.1.layernorm_before", "vit")

    def test_whisper(self):
        self.check_family("Trainer, Whisper", "model.encoder.layers.1.fc1", "whisper")


if __name__ == "__main__":
    unittest.main(verbosity=2)
