"""SingleSave and SingleComparator with the real PyTorch."""
import csv
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy
import torch

from msprobe.core import SingleComparator, SingleSave


def save_run(folder, offset):
    SingleSave._instance = None
    torch.manual_seed(3)
    SingleSave(folder, fmk="pytorch")
    for _ in range(2):
        for _ in range(2):
            SingleSave.save({"log_prob": torch.randn(2, 4) + offset, "pair": [torch.zeros(2), torch.ones(3)]})
        SingleSave.save({"d": {"a": torch.tensor([1.0, 2.0]), "b": torch.full((1, 1), 3.0) + offset}})
        SingleSave.save_ex({"reward": torch.tensor([0.5, float("nan")])})
        SingleSave.save_ex({"late": torch.arange(4)}, micro_batch=7)
        SingleSave.step()
    SingleSave.save_config({"lr": 0.001, "n": [1, 2]})


class Saving(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_rl_"))
        SingleSave._instance = None

    def test_files_stand_where_the_python_tool_puts_them(self):
        save_run(self.folder / "a", 0)
        data = self.folder / "a/data"
        self.assertTrue((data / "log_prob/step1/rank0/micro_step1/log_prob.npy").is_file())
        self.assertTrue((data / "pair/step0/rank0/micro_step0/pair.1.npy").is_file())
        self.assertTrue((data / "d/step0/rank0/micro_step0/d.a.npy").is_file())
        self.assertTrue((data / "reward/step1/rank0/reward.npy").is_file())
        self.assertTrue((data / "late/step0/rank0/micro_step7/late.json").is_file())
        facts = json.loads((data / "d/step0/rank0/micro_step0/d.json").read_text())["data"]["a"]
        self.assertEqual(facts, {"max": 2.0, "min": 1.0, "mean": 1.5, "norm": facts["norm"], "shape": [2]})
        self.assertAlmostEqual(facts["norm"], 5 ** 0.5, places=6)
        self.assertEqual((self.folder / "a/configurations.json").read_text(), json.dumps({"lr": 0.001, "n": [1, 2]}, indent=4))

    def test_the_first_folder_counts(self):
        first = SingleSave(self.folder / "a")
        self.assertIs(SingleSave(self.folder / "b"), first)

    def test_bfloat16_is_stored_as_float32(self):
        SingleSave(self.folder / "a")
        SingleSave.save({"x": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)})
        array = numpy.load(self.folder / "a/data/x/step0/rank0/micro_step0/x.npy")
        self.assertEqual((array.dtype, array.tolist()), (numpy.float32, [1.5, -2.0]))

    def test_what_is_no_tensor_is_left_out_or_refused(self):
        SingleSave(self.folder / "a")
        SingleSave.save("text")
        SingleSave.save({3: torch.ones(1), "n": 5})
        with self.assertRaises(TypeError):
            SingleSave.save({"pair": [torch.ones(1), 2]})
        self.assertFalse((self.folder / "a").exists())

    def test_two_runs_are_compared(self):
        for name, offset in (("a", 0), ("b", 0.0005)):
            save_run(self.folder / name, offset)
        SingleComparator.compare(self.folder / "a", self.folder / "b", self.folder / "out")
        self.assertEqual(sorted(os.listdir(self.folder / "out")),
                         ["d.xlsx", "late.xlsx", "log_prob.xlsx", "pair.xlsx", "reward.xlsx"])
        subprocess.run([os.environ["MSPROBE"], "rl_compare", "-q", "-a", self.folder / "a", "-b", self.folder / "b", "-o",
                        self.folder / "own", "-f", "csv", "--lang", "en"], check=True)
        with open(self.folder / "own/d.csv", encoding="utf-8-sig", newline="") as file:
            rows = [(row["id"], row["same elements (%)"]) for row in csv.DictReader(file)]
        self.assertEqual(rows, [("a", "100"), ("b", "0")] * 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
