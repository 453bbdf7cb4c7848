"""Some cases of cases.py, explained by rl_compare --explain: every cause, mixtures of two, noise alone. All of them: run_cases.py."""
import os
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is not installed: skipped")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases  # noqa: E402
import run_cases  # noqa: E402

MIXTURES = [("stale_weights", "truncated_mass"), ("stale_weights", "temperature"), ("truncated_mass", "retokenised"),
            ("temperature", "padding"), ("shifted_ids", "retokenised"), ("truncated_mass", "packing")]


class Explain(unittest.TestCase):
    def judged(self, plans):
        score = run_cases.Score()
        with tempfile.TemporaryDirectory() as scratch:
            for planted, seed in plans:
                folder = os.path.join(scratch, "%s-%d" % ("-".join(planted), seed))
                truth = cases.Case(planted, seed).write(folder)
                right, line = score.add(truth, run_cases.explain(folder))
                if not right:
                    print(line)
        self.assertEqual(score.problems, [], "shares sum to 1")
        return score

    def test_the_leading_cause_is_named(self):
        plans = [((cause,), seed) for cause in cases.CAUSES for seed in (102, 110)] + [(pair, 120 + i) for i, pair in enumerate(MIXTURES)]
        score = self.judged(plans)
        self.assertGreaterEqual(score.leading, 0.9 * score.cases, score.report())
        self.assertGreater(sum(score.attributed) / len(score.attributed), 0.9, score.report())

    def test_noise_is_no_fault(self):
        score = self.judged([((), seed) for seed in range(12)])
        self.assertEqual(score.noise_wrong, 0, score.report())


if __name__ == "__main__":
    unittest.main()
