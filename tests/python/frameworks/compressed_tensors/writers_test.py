"""Models that compressed-tensors compressed, in every preset that it has."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import compressed_tensors.quantization as quantization  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from compressed_tensors.compressors import ModelCompressor  # noqa: E402
from compressed_tensors.quantization.utils import calculate_qparams  # noqa: E402
from quantised import models  # noqa: E402

PRESETS = {"FP8": "fp8_e4m3 tensor", "FP8_DYNAMIC": "fp8_e4m3 channel", "FP8_BLOCK": "fp8_e4m3 block 128x128",
           "W8A8": "int8 channel", "W4A16": "int4 group 128", "W4A16_ASYM": "int4 group 128 asymmetric",
           "W8A16": "int8 group 128", "NVFP4": "nvfp4", "MXFP4": "mxfp4", "MXFP8": "mxfp8"}


class Writers(quantised.WriterCase):
    framework = "compressed_tensors"

    def model(self, values):
        config = transformers.LlamaConfig(
            hidden_size=models.HIDDEN, intermediate_size=models.INNER, num_hidden_layers=models.LAYERS,
            num_attention_heads=models.HEADS, num_key_value_heads=models.KV_HEADS, vocab_size=models.VOCAB,
            tie_word_embeddings=False)
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        model.load_state_dict(self.tensors(values), strict=False)
        return model

    @staticmethod
    def calibrate(module):
        """Scales of the largest magnitudes, as the library's users take them."""
        arguments = module.quantization_scheme.weights
        weight = module.weight.data
        strategy = str(getattr(arguments.strategy, "value", arguments.strategy))
        rows, columns = weight.shape
        further = {}
        if strategy in ("group", "tensor_group"):
            parts, axes = weight.reshape(rows, -1, arguments.group_size), (2,)
        elif strategy == "channel":
            parts, axes = weight.reshape(rows, 1, columns), (2,)
        elif strategy == "block":
            height, width = arguments.block_structure
            padded = torch.zeros((-(-rows // height) * height, -(-columns // width) * width), dtype=weight.dtype)
            padded[:rows, :columns] = weight
            parts, axes = padded.reshape(-(-rows // height), height, -(-columns // width), width), (1, 3)
        else:
            parts, axes = weight.reshape(1, -1), (1,)
        if hasattr(module, "weight_global_scale"):
            module.weight_global_scale.data = ((448.0 * 6.0) / weight.abs().max().float()).reshape(1)
            further["global_scale"] = module.weight_global_scale.data
        scale, zero = calculate_qparams(parts.amin(axes), parts.amax(axes), arguments, **further)
        module.weight_scale.data = scale.to(module.weight_scale.dtype).reshape(module.weight_scale.shape)
        known = getattr(module, "weight_zero_point", None)
        if known is not None:
            known.data = zero.to(known.dtype).reshape(known.shape)

    def test_every_preset(self):
        folder = self.folder()
        base, values = self.base(folder)
        for preset, form in PRESETS.items():
            with self.subTest(preset), self.checking("works", preset):
                model = self.model(values)
                scheme = quantization.preset_name_to_scheme(preset, ["Linear"])
                quantization.apply_quantization_config(model, quantization.QuantizationConfig(
                    config_groups={"group_0": scheme}, ignore=["lm_head"], quantization_status="initialized"))
                for module in model.modules():
                    if hasattr(module, "weight_scale"):
                        self.calibrate(module)
                compressor = ModelCompressor.from_pretrained_model(model)
                compressor.compress_model(model)
                child = self.write(os.path.join(folder, preset), model.state_dict())
                compressor.update_config(child)
                self.assert_rounding(base, child, form)


if __name__ == "__main__":
    unittest.main()
