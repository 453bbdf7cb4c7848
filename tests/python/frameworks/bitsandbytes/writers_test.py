"""Weights that bitsandbytes quantised, in the form in which Transformers stores them."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import bitsandbytes.functional as functional  # noqa: E402
import torch  # noqa: E402
from quantised import models  # noqa: E402


class Writers(quantised.WriterCase):
    framework = "bitsandbytes"

    def test_four_bits(self):
        folder = self.folder()
        base, model = self.base(folder)
        for kind in ("nf4", "fp4"):
            for nested in (False, True):
                subject = kind + (", absmax quantised, too" if nested else "")
                with self.subTest(subject), self.checking("works", subject):
                    tensors = {}
                    for name, weight in self.tensors(model).items():
                        if not models.is_linear(name):
                            tensors[name] = weight
                            continue
                        codes, state = functional.quantize_4bit(weight, blocksize=64, compress_statistics=nested,
                                                                quant_type=kind)
                        tensors[name] = codes
                        tensors.update({name + "." + key: value for key, value in state.as_dict(packed=True).items()})
                    child = self.write(os.path.join(folder, subject), tensors, {"quant_method": "bitsandbytes"})
                    self.assert_rounding(base, child, kind + " group 64")

    def test_eight_bits(self):
        with self.checking("works", "int8"):
            folder = self.folder()
            base, model = self.base(folder)
            tensors = {}
            for name, weight in self.tensors(model).items():
                tensors[name] = weight
                if models.is_linear(name):
                    tensors[name], tensors[models.stem(name) + "SCB"], _ = functional.int8_vectorwise_quant(
                        weight.to(torch.float16))
            child = self.write(os.path.join(folder, "int8"), tensors)
            self.assert_rounding(base, child, "int8 channel")


if __name__ == "__main__":
    unittest.main()
