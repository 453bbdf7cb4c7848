"""Rows of free_benchmark against those of the Python tool under the same PyTorch, of two trainings (golden/README.md): all
that the Python tool finds is found, with its numbers, but for the rows that docs/commands/free_benchmark.md names."""
import csv
import glob
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import torch  # noqa: E402,F401  the scripts are forked: it is loaded once

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden", "free_benchmark")
TRAININGS = (("gpt", "float32"), ("cnn", "float32"))


class Rows(harness.FrameworkCase):
    framework = "torch"
    subject = "free_benchmark, rows of the Python tool"

    def rows(self, net, dtype, stage, mode):
        folder = self.folder()
        section = {"pert_mode": mode, "fuzz_stage": stage, "fuzz_device": "cpu" if mode == "to_cpu" else "npu", "compat": True}
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"task": "free_benchmark", "dump_path": "rows", "level": "L1", "free_benchmark": section}, file)
        shutil.copy(os.path.join(HERE, "golden", "free_benchmark.py"), os.path.join(folder, "script.py"))
        status, output = harness.run_forked(folder, [net, "config.json", dtype], {"OMP_NUM_THREADS": "1"})
        self.assertEqual(status, 0, output)
        found = []
        for path in sorted(glob.glob(os.path.join(folder, "rows", "step*", "rank0", "free_benchmark.csv"))):
            with open(path, encoding="utf-8", newline="") as file:
                found += list(csv.DictReader(file))
        return found, [line for line in output.splitlines() if line.startswith("loss")]

    def check(self, net, dtype, stage, mode):
        name = "%s_%s_%s_%s" % (net, dtype, stage, mode)
        with open(os.path.join(GOLDEN, name + ".csv"), encoding="utf-8", newline="") as file:
            golden = [row for row in csv.DictReader(file) if not is_left_out(row)]
        found, _ = self.rows(net, dtype, stage, mode)
        key = lambda row: (row["step"], row["api_name"], row["output_index"])  # noqa: E731
        self.assertEqual(sorted(map(key, found)), sorted(map(key, golden)), name)
        found = {key(row): row for row in found}
        for row in golden:
            ours, theirs = found[key(row)]["max_rel"], row["max_rel"]
            self.assertEqual([found[key(row)][column] for column in row if column not in ("max_rel", "folder")],
                             [row[column] for column in row if column not in ("max_rel", "folder")], name)
            if theirs == "symbol_flipping":
                self.assertEqual(ours, theirs, "%s %s" % (name, row))
            else:  # the last bits depend on the processor
                self.assertAlmostEqual(float(ours), float(theirs), delta=2e-3 * (1 + float(theirs)), msg="%s %s" % (name, row))
        return len(golden)

    def test_all(self):
        with self.checking("works"):
            compared = 0
            for stage in ("forward", "backward"):
                for net, dtype in TRAININGS:
                    compared += self.check(net, dtype, stage, "change_value")
            self.assertGreater(compared, 150)


def is_left_out(row):
    """The first of two rows of a gradient, which has no output_index; what is filed under another step than its own: a
    gradient of the next step beside that of this one."""
    return row["stage"] == "backward" and (row["output_index"] == "" or row["folder"] != row["step"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
