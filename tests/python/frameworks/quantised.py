"""What tests of libraries that write quantised weights share: the model of tests/weights, and how a pair is judged."""
import json
import os
import sys

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "weights"))
import compare  # noqa: E402
import encoders  # noqa: E402
import models  # noqa: E402


class WriterCase(harness.FrameworkCase):
    def base(self, folder):
        """The model in bfloat16, written; its values."""
        model = models.base_model()
        models.write_base(os.path.join(folder, "base"), model)
        return os.path.join(folder, "base"), model

    def tensors(self, model):
        import torch
        return {name: torch.tensor(value).to(torch.bfloat16) for name, value in model.items()}

    def write(self, folder, tensors, config=None):
        import safetensors.torch
        os.makedirs(folder)
        safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()},
                                    os.path.join(folder, "model.safetensors"))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({**models.CONFIG, **({"quantization_config": config} if config else {})}, file)
        return folder

    def assert_rounding(self, base, child, form):
        """All clean, and linear weights in this format; the same with a weight that was changed is not."""
        code, output, table = compare.compare(harness.MSPROBE, base, child)
        self.assertIsNotNone(table, output)
        wrong = {row["name"]: (row["outcome"], row["cause"], row["notes"]) for row in table["parameters"]
                 if row["outcome"] not in ("identical", "equal", "rounding")}
        self.assertEqual((code, wrong, table["only_in_1"], table["only_in_2"]), (0, {}, [], []))
        said = {row["format_2"] for row in table["parameters"] if models.is_linear(row["name"])}
        self.assertEqual(said, {form})

    def assert_calibrated(self, base, child, form):
        """Clean, or differing for nothing but calibration; linear weights in this format."""
        _, output, table = compare.compare(harness.MSPROBE, base, child)
        self.assertIsNotNone(table, output)
        wrong = {row["name"]: (row["outcome"], row["cause"], row["notes"]) for row in table["parameters"]
                 if row["outcome"] not in ("identical", "equal", "rounding") and row["cause"] != "calibrated"}
        self.assertEqual((wrong, table["only_in_1"], table["only_in_2"]), ({}, [], []))
        said = {row["format_2"] for row in table["parameters"] if models.is_linear(row["name"])}
        self.assertEqual(said, {form})

    def assert_names(self, base, child, expected):
        _, output, table = compare.compare(harness.MSPROBE, base, child)
        self.assertIsNotNone(table, output)
        self.assertEqual({row["name"]: row["cause"] for row in table["parameters"]
                          if row["outcome"] not in ("identical", "equal", "rounding")}, expected)
