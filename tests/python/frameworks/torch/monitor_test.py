"""The monitor of parameters that PyTorch itself shards."""
import csv
import glob
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import torch  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sharded_monitor.py")


class Sharded(harness.FrameworkCase):
    framework = "torch"

    def test_parts_of_dtensors_have_rows(self):
        if VERSION < (2, 6):
            self.skipTest("PyTorch has fully_shard from 2.6 on")
        with self.checking("works", "FSDP2: rows of the monitor against float64"):
            folder = self.folder()
            config = os.path.join(folder, "config.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"targets": {}, "param_distribution": True, "mv_distribution": True, "wg_distribution": True,
                           "step_interval": 1, "ops": ["norm", "min", "max", "mean"]}, file)
            run = subprocess.run([sys.executable, SCRIPT, config], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=dict(os.environ, MONITOR_OUTPUT_DIR=os.path.join(folder, "monitor")), timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            expected = json.loads(run.stdout.splitlines()[-1])
            found = {}
            for path in glob.glob(os.path.join(folder, "monitor", "*", "*.csv")):
                table = os.path.basename(path).rpartition("_")[0]
                with open(path, newline="", encoding="utf-8") as file:
                    for row in csv.DictReader(file):
                        found["%s %s %s" % (table, row["step"], row["name"])] = [json.loads(row["shape"])] + [
                            float(row[key]) for key in ("norm", "min", "max", "mean")]
            self.assertEqual([name for name in expected if name not in found], [], sorted(found))
            for name, (shape, *values) in expected.items():
                self.assertEqual(found[name][0], shape, name)
                for number, exact in zip(found[name][1:], values):   # written with six decimals
                    self.assertLessEqual(abs(number - exact), 2e-6 * max(1, abs(exact)), (name, found[name], values))


if __name__ == "__main__":
    unittest.main(verbosity=2)
