"""Dumps against those of the Python tool under the same MindSpore, of the same script: names, order, files, shapes,
dtypes, parents, and statistics as far as float32 goes. golden/README.md tells how they were made."""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def is_elsewhere(name):
    """Calls that the two record in another place: what jit compiles (ours alone); functions that gave back their argument,
    whose gradient is that of the tensor in all its uses, and comes when they are over; functions given a list: the Python
    tool does not see the gradients of what is in it, and tells such a call at the end of the step."""
    return name.startswith("Jit.") or name.startswith(("Tensor.to.", "Mint.cat.")) and name.endswith(".backward")


class Golden(harness.FrameworkCase):
    framework = "mindspore"
    subject = "dumps as the Python tool's"

    def capture(self, level, task, mode):
        folder = tempfile.mkdtemp(prefix="msprobe_golden_")
        self.addCleanup(shutil.rmtree, folder, True)
        run = subprocess.run([sys.executable, os.path.join(GOLDEN, "train.py"), level, task, mode, folder],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout.decode())
        return os.path.join(folder, "dump", "step0", "rank")

    def load(self, folder, name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)

    def assert_same(self, place, golden, actual):
        if isinstance(golden, dict):
            self.assertEqual(list(actual), list(golden), place)
            for key, value in golden.items():
                self.assert_same("%s.%s" % (place, key), value, actual[key])
        elif isinstance(golden, list):
            self.assertEqual(len(actual), len(golden), place)
            for index, value in enumerate(golden):
                self.assert_same("%s.%d" % (place, index), value, actual[index])
        elif isinstance(golden, float) and isinstance(actual, float):
            # Gradients that are zero but for rounding: no digit of them is the same on another processor.
            self.assertTrue(math.isclose(actual, golden, rel_tol=2e-4, abs_tol=2e-6),
                            "%s: %r, golden %r" % (place, actual, golden))
        elif not place.endswith(".md5"):  # the last bits of sums depend on the processor
            self.assertEqual(actual, golden, place)

    def check(self, level, task, mode, name):
        with self.checking("works"):
            golden, actual = os.path.join(GOLDEN, name), self.capture(level, task, mode)
            expected, found = (self.load(folder, "dump.json") for folder in (golden, actual))
            self.assertEqual([key for key in found if key != "data"], [key for key in expected if key != "data"])
            for key in ("task", "level", "framework"):
                self.assertEqual(found[key], expected[key])
            names = [[call for call in data["data"] if not is_elsewhere(call)] for data in (expected, found)]
            self.assertEqual(names[1], names[0])
            for call in expected["data"]:
                if not is_elsewhere(call):
                    self.assert_same(call, expected["data"][call], found["data"][call])
            parents = [{key: value for key, value in self.load(folder, "construct.json").items() if not is_elsewhere(key)}
                       for folder in (golden, actual)]
            self.assertEqual(parents[1], parents[0])
            if mode == "md5":  # of what the script itself gave
                given = [[argument["md5"] for argument in data["data"]["Primitive.dense.Dense.0.forward"]["input_args"]]
                         for data in (expected, found)]
                self.assertEqual(given[1], given[0])
            if task == "tensor":
                files = self.load(golden, "files.json")
                self.assertEqual(sorted(os.listdir(os.path.join(actual, "dump_tensor_data"))), files)

    def test_cells_with_tensors(self):
        self.check("L0", "tensor", "statistics", "L0_tensor")

    def test_cells_and_apis(self):
        self.check("mix", "statistics", "statistics", "mix_statistics")

    def test_checksums_of_apis(self):
        self.check("L1", "statistics", "md5", "L1_md5")


if __name__ == "__main__":
    unittest.main(verbosity=2)
