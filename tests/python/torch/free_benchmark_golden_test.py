"""Results of several elements, as the Python tool compared them: rows of the shared recordings.

Single tensors are compared in tests/unit/perturb/golden_test.cpp. MSPROBE_GOLDEN: the folder of
recordings, by default ../shared/golden beside the repository.
"""
import json
import math
import os
import sys
import types
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import numpy

from msprobe.pytorch import values
from msprobe.pytorch.free_benchmark.comparison import Comparison

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CASES = os.path.join(os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(ROOT), "shared", "golden")),
                     "free_benchmark", "cases")


def value_of(described):
    for kind, make in (("tuple", tuple), ("list", list)):
        if kind in described:
            return make(value_of(item) for item in described[kind])
    if "tensor" not in described:
        return described["value"]
    array = numpy.load(os.path.join(CASES, "tensors", described["tensor"]))
    if described["tensor"].endswith(".bf16.npy"):
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def text_of(value):
    return "" if value is None else str(value)


class Golden(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(os.path.join(CASES, "expected.json")):
            self.skipTest("MSPROBE_GOLDEN leads to no recordings of free_benchmark")
        values.configure()

    def test_rows_are_alike(self):
        with open(os.path.join(CASES, "expected.json"), encoding="utf-8") as file:
            cases = json.load(file)["compare"]
        several = 0
        for case in cases:
            with self.subTest(case=case["case"], why=case["why"]):
                original, perturbed = value_of(case["original"]), value_of(case["perturbed"])
                comparison = Comparison(types.SimpleNamespace(stage=case["stage"], compat=True,
                                                              mode=case["mode"]))
                rows = [verdict for verdict in comparison.by_ratio(original, perturbed)
                        if not verdict.consistent]
                expected = case["unequal_rows"]
                self.assertEqual([text_of(row.index) for row in rows],
                                 [text_of(row["output_index"]) for row in expected])
                for row, wanted in zip(rows, expected):
                    self.assertEqual(text_of(getattr(row.original, "dtype", None)), text_of(wanted["dtype"]))
                    self.assertEqual(str(getattr(row.original, "shape", "")), text_of(wanted["shape"]))
                    try:
                        distance = float(wanted["max_rel"])
                    except ValueError:
                        self.assertEqual(row.max_rel, wanted["max_rel"])
                        continue
                    self.assertTrue(row.max_rel == distance or math.isclose(
                        row.max_rel + 1, distance + 1, rel_tol=1e-6), (row.max_rel, distance))
                several += "tensor" not in case["original"]
        self.assertEqual(several, 6)


if __name__ == "__main__":
    unittest.main()
