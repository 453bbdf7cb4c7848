"""Models that NVIDIA's Model Optimizer exported, in the presets that it can export without a GPU."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import modelopt.torch.quantization as quantization  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from modelopt.torch.export import export_hf_checkpoint  # noqa: E402
from quantised import models  # noqa: E402

PRESETS = {"FP8_DEFAULT_CFG": "fp8_e4m3 tensor", "FP8_PER_CHANNEL_PER_TOKEN_CFG": "fp8_e4m3 channel",
           "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG": "fp8_e4m3 block 128x128", "NVFP4_DEFAULT_CFG": "nvfp4",
           "MXFP8_DEFAULT_CFG": "mxfp8", "INT8_WEIGHT_ONLY_CFG": "int8 channel"}


class Writers(quantised.WriterCase):
    framework = "modelopt"

    def model(self, values):
        config = transformers.LlamaConfig(
            hidden_size=models.HIDDEN, intermediate_size=models.INNER, num_hidden_layers=models.LAYERS,
            num_attention_heads=models.HEADS, num_key_value_heads=models.KV_HEADS, vocab_size=models.VOCAB,
            tie_word_embeddings=False, architectures=["LlamaForCausalLM"])
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        model.load_state_dict(self.tensors(values), strict=False)
        return model

    @staticmethod
    def calibrate(model):
        torch.manual_seed(0)
        for _ in range(2):
            model(torch.randint(0, models.VOCAB, (2, 32)))

    def test_every_preset(self):
        folder = self.folder()
        base, values = self.base(folder)
        for preset, form in PRESETS.items():
            with self.subTest(preset), self.checking("works", preset.removesuffix("_CFG")):
                model = quantization.quantize(self.model(values), getattr(quantization, preset), self.calibrate)
                child = os.path.join(folder, preset)
                with torch.inference_mode():
                    export_hf_checkpoint(model, export_dir=child)
                self.assert_rounding(base, child, form)


if __name__ == "__main__":
    unittest.main()
