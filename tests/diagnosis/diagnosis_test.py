"""A few cases of the benchmark: compare must be right in most of them, and quiet about benign pairs.

The whole benchmark: `tools/test.sh --diagnosis`, or run.py.
"""
import os
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import cases
import report
import run
import scoring

SEEDS = range(0, 42)  # every kind of fault three times


class Diagnosis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="msprobe_diagnosis_") as cache:
            found = [cases.make(cache, seed) for seed in SEEDS]
            results = os.path.join(cache, "results")
            cls.lines = [run.ask_about(os.environ["MSPROBE"], case, results) for case in found]

    def told(self, wrong):
        texts = []
        report.failures(wrong, texts.append)
        return "\n".join(texts)

    def test_every_kind_of_fault_is_made_and_most_are_visible(self):
        judged = [line for line in self.lines if line.get("judged")]
        self.assertGreaterEqual(len(judged), len(SEEDS) // 3)
        broken = [line["seed"] for line in self.lines if (line["skipped"] or "").startswith("cannot be run")]
        self.assertEqual(broken, [])
        self.assertEqual([(line["seed"], line["doubt"]) for line in self.lines if line["doubt"]], [])

    def test_the_planted_fault_is_named(self):
        judged = [line for line in self.lines if line.get("judged")]
        wrong = [line for line in judged if line["judged"] != "right"]
        self.assertLessEqual(len(wrong), 2, self.told(wrong))

    def test_benign_pairs_have_no_origin(self):
        wrong = [line for line in self.lines if "benign" in line and line["benign"]["false_origin"]]
        self.assertLessEqual(len(wrong), 1, self.told(wrong))


class Scoring(unittest.TestCase):
    def test_an_answer_must_agree_in_step_call_number_and_kind(self):
        truth = {"step": 1, "answers": [["Functional.gelu.3.forward", "computation"]]}
        for step, call, kind, judged in ((1, "Functional.gelu.3.forward", "computation", "right"),
                                         (1, "Functional.gelu.3.forward", "input", "kind"),
                                         (1, "Functional.gelu.2.forward", "computation", "call"),
                                         (0, "Functional.gelu.3.forward", "computation", "step"),
                                         (None, None, None, "nothing named")):
            self.assertEqual(scoring.judge(truth, scoring.Answer(0, step, call, kind)), judged)

    def test_the_interval_of_a_rate_is_wilsons(self):
        low, high = scoring.wilson(97, 100)
        self.assertAlmostEqual(low, 0.9155, 3)
        self.assertAlmostEqual(high, 0.9897, 3)


if __name__ == "__main__":
    unittest.main()
