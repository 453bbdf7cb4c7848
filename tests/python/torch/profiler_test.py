"""Profiles of the CPU alone that this PyTorch wrote: host calls are compared, and what is missing is told."""
import glob
import os
import subprocess
import tempfile
import unittest

try:
    import torch
    from torch.profiler import ProfilerActivity, profile
except ImportError:
    import sys
    print("PyTorch is not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ["MSPROBE"]


def record(path, steps):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as recorded:
        for _ in range(steps):
            model(torch.ones(4, 8)).sum().backward()
    recorded.export_chrome_trace(path)


def compare(*flags):
    return subprocess.run([MSPROBE, "perf_compare", "-d", "after.pt.trace.json", "-bp", "before.pt.trace.json", "-o", "out"] +
                          list(flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)


class ProfilesOfTheCpu(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.scratch = tempfile.TemporaryDirectory()
        os.chdir(self.scratch.name)
        record("before.pt.trace.json", 2)
        record("after.pt.trace.json", 4)

    def tearDown(self):
        os.chdir(self.before)
        self.scratch.cleanup()

    def test_host_calls_are_compared_and_the_missing_kernels_are_told(self):
        ended = compare("--format", "csv")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("kernel", ended.stderr)  # that there are none, or that only the host was profiled
        with open(glob.glob("out/*_ApiCompare.csv")[0], encoding="utf-8-sig") as stream:
            calls = {row.split(",")[1]: row.split(",") for row in stream.read().splitlines()[1:]}
        self.assertEqual((calls["aten::linear"][5], calls["aten::linear"][9]), ("4", "8"))


if __name__ == "__main__":
    unittest.main()
