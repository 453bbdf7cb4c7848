"""Recorded digits against those of mpmath, for a sample of the cases of tests/bench/noise_floor_bench.py."""
import sys
import unittest

try:
    import mpmath  # noqa: F401
    import torch  # noqa: F401
except ImportError as missing:
    print("%s is not installed: skipped" % missing.name)
    sys.exit(77)

from noise_floor_cases import cases, measured


class Digits(unittest.TestCase):
    def test_there_are_two_hundred_cases(self):
        self.assertGreaterEqual(sum(1 for _ in cases()), 200)

    def test_are_within_one_of_the_truth(self):
        sample = measured(5, lambda name: name.rpartition(" ")[0] in (
            "sum float32", "linear float32", "var float32", "log float32", "cos float32", "sub float64", "softmax float32"))
        self.assertEqual(len(sample), 6 * 7 + 3)
        for name, recorded, right in sample:
            self.assertAlmostEqual(recorded, right, delta=1, msg=name)


if __name__ == "__main__":
    unittest.main()
