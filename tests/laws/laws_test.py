"""Some trainings of cases.py and rank_cases.py: a fault of each law, and some in which nothing is wrong. All of them: run_cases.py all."""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cases  # noqa: E402
import rank_cases  # noqa: E402
from run_cases import MSPROBE, judge, run, run_ranks  # noqa: E402

FAULTS = ("a_parameter_is_not_zeroed", "accumulators_of_the_scripts_own_are_never_zeroed", "a_parameter_is_left_out_of_the_update",
          "one_gradient_is_divided_twice", "parameters_are_in_the_list_of_a_clip_twice", "moments_take_the_gradient_of_the_step_before",
          "frozen_late_and_moved_by_a_stale_gradient", "an_output_layer_is_replaced", "a_resume_without_moments", "a_bit_flips_in_one_step")
PEACE = ("micro_batches", "warm_up_from_rate_zero", "masters_of_half_precision_by_hand", "a_moving_average_inside_of_the_model",
         "experts_that_get_no_token", "two_players", "a_resume_with_everything")
FAULTS_OF_RANKS = ("a_copy_drifts", "one_gradient_is_reduced_twice", "offsets_of_heads_count_on_one_rank_alone")
SCRIPT = os.path.join(HERE, "..", "..", "docs", "example", "laws_train.py")


class Laws(unittest.TestCase):
    def test_a_fault_of_each_law_is_found(self):
        for name, law, part, step, function in cases.PLANTED:
            if name in FAULTS:
                with self.subTest(name):
                    rows, told = run(function, getattr(function, "settings", None))
                    self.assertIsNone(judge(name, law, part, step, rows), rows[:3])
                    self.assertGreater(told["laws"][law]["broken"], 0)

    def test_nothing_else_raises_an_alarm(self):
        for name, function in cases.BENIGN:
            if name in PEACE:
                with self.subTest(name):
                    rows, told = run(function, getattr(function, "settings", None))
                    self.assertEqual(rows, [])
                    self.assertGreater(told["laws"]["moved"]["checked"], 0)

    def test_faults_of_several_ranks(self):
        for name, laws, part, step, world, function in rank_cases.PLANTED:
            if name in FAULTS_OF_RANKS:
                with self.subTest(name):
                    rows, said, code, ended = run_ranks(function, world)
                    self.assertIsNone(judge(name, laws[0], part, step, rows), rows[:3])
                    self.assertEqual((code, any(ended)), (1, False), said)
                    self.assertIn("LAW BROKEN", said)

    def test_ranks_in_peace(self):
        for name, world, function in rank_cases.BENIGN:
            if name in ("the_wrapper", "shards_and_copies"):
                with self.subTest(name):
                    rows, said, code, _ = run_ranks(function, world)
                    self.assertEqual(rows, [], said)
                    self.assertEqual(code, 0, said)

    def test_ranks_that_exchange_their_digests(self):
        name, _, part, step, world, function = next(case for case in rank_cases.PLANTED if case[0] == "a_copy_drifts")
        rows, _, _, ended = run_ranks(function, world, {"exchange": True})
        self.assertFalse(any(ended))
        self.assertIsNone(judge(name, "replica", part, step, rows), rows[:3])
        self.assertEqual(rows[0]["ranks"], "0 1")

    def test_what_is_left_out_is_silent(self):
        for pattern in ("zeroed", "one.*", "zeroed:one.weight"):
            function = cases.a_parameter_is_not_zeroed
            rows, _ = run(function, {"laws_except": [pattern]})
            self.assertEqual([row for row in rows if row["law"] == "zeroed"], [], pattern)

    def test_the_launcher(self):
        with tempfile.TemporaryDirectory(prefix="msprobe_laws_") as folder:
            ran = subprocess.run([MSPROBE, "monitor", "run", "--laws", "-o", "out", "--", sys.executable, SCRIPT], cwd=folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            self.assertIn("law zeroed is broken in step 1 on rank 0, 2.weight", ran.stderr.decode())
            folders = glob.glob(os.path.join(folder, "out", "*-rank0-*"))
            with open(os.path.join(folders[0], "laws.csv"), encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual((rows[0]["step"], rows[0]["law"], rows[0]["name"], rows[0]["ranks"]), ("1", "zeroed", "2.weight", "0"))
            with open(os.path.join(folders[0], "laws.json"), encoding="utf-8") as file:
                told = json.load(file)
            self.assertEqual(told["laws"]["zeroed"]["first"]["step"], 1)
            for level, code in (("law", 1), ("alert", 0)):
                asked = subprocess.run([MSPROBE, "monitor", "analyse", "out", "--fail-on", level], cwd=folder, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, check=False)
                self.assertEqual(asked.returncode, code, asked.stdout.decode())
                self.assertIn("LAW BROKEN: law zeroed is broken in step 1", asked.stdout.decode())
            top = subprocess.run([MSPROBE, "monitor", "top", "out", "--once"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 check=False)
            self.assertIn("law zeroed is broken", top.stdout.decode())

    def test_a_wrong_name_is_told(self):
        ran = subprocess.run([MSPROBE, "monitor", "run", "--laws", "moves", "--", sys.executable, "-c", "print('ran')"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(ran.returncode, 0)
        self.assertEqual(ran.stdout, b"")
        self.assertIn('did you mean "moved"', ran.stderr.decode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=1)
