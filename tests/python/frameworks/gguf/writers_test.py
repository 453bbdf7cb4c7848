"""GGUF files that the gguf package quantised and wrote."""
import importlib.metadata
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import gguf  # noqa: E402
import numpy  # noqa: E402
from quantised import encoders, models  # noqa: E402

TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")


class Writers(quantised.WriterCase):
    framework = "gguf"

    def version(self):
        return importlib.metadata.version("gguf")  # the module does not tell

    def write_file(self, path, model, kind):
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_block_count(models.LAYERS)
        writer.add_head_count(models.HEADS)
        writer.add_head_count_kv(models.KV_HEADS)
        for name, weight in model.items():
            heads = models.HEADS if "q_proj" in name else models.KV_HEADS if "k_proj" in name else 0
            values = encoders.permute_heads(weight, heads) if heads else weight
            values = numpy.ascontiguousarray(values, dtype=numpy.float32)
            if models.is_linear(name):
                writer.add_tensor(models.gguf_name(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(models.gguf_name(name), values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def test_every_type_that_it_writes(self):
        folder = self.folder()
        base, model = self.base(folder)
        for name in TYPES:
            with self.subTest(name), self.checking("works", name.lower()):
                path = self.write_file(os.path.join(folder, name + ".gguf"), model, gguf.GGMLQuantizationType[name])
                self.assert_rounding(base, path, name.lower())

    def test_a_changed_parameter_is_named(self):
        with self.checking("works", "a fault is named"):
            folder = self.folder()
            base, model = self.base(folder)
            first, second = "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"
            model[first], model[second] = model[second], model[first]
            path = self.write_file(os.path.join(folder, "child.gguf"), model, gguf.GGMLQuantizationType.Q8_0)
            self.assert_names(base, path, {first: "swapped_with:" + second, second: "swapped_with:" + first})


if __name__ == "__main__":
    unittest.main()
