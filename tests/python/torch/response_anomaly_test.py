"""analyze_output_anomaly: the recorded requests through the Python function, and what it refuses."""
import json
import math
import os
import sys
import unittest
from pathlib import Path

CASE = Path(__file__).resolve().parents[2] / "data/response_anomaly/toy"
os.environ.setdefault("MSPROBE", "msprobe")


def requests():
    return [json.loads(line) for line in (CASE / "requests.jsonl").read_text().splitlines()]


def as_dicts(lists):
    return [{token: float(logprob) for token, logprob in pairs} for pairs in lists]


class ResponseAnomaly(unittest.TestCase):
    def setUp(self):
        from msprobe.core import analyze_output_anomaly
        self.analyze = analyze_output_anomaly
        self.files = {"config": CASE / "config.yaml", "models": CASE / "mtype_config.json", "categories": CASE / "token2category"}

    def test_the_verdicts_are_those_of_the_python_tool(self):
        recorded = requests()
        models = [item["model"] if i % 2 else {"model_name": item["model"]} for i, item in enumerate(recorded)]
        verdicts = self.analyze([as_dicts(item["topk_logprobs"]) for item in recorded], [item["tokens"] for item in recorded], models,
                                **self.files)
        expected = json.loads((CASE / "expected.json").read_text())
        self.assertEqual(verdicts, [[item["is_ill"], item["ill_type"]] for item in expected])

    def test_no_request_needs_as_many_candidates_as_the_one_before(self):
        many, few = [{1: -0.1, 2: -3.0, 3: -4.0}] * 5, [{1: -0.1}] * 5
        self.assertEqual(self.analyze([many, few, many], [[1] * 5] * 3, [None] * 3), [[False, 0]] * 3)

    def test_objects_that_hold_a_logprob_are_taken(self):
        class Logprob:
            def __init__(self, value):
                self.logprob = value
        self.assertEqual(self.analyze([[{1: Logprob(-0.1)}], [{1: Logprob(math.nan)}]], [[1], [1]], [None, "m"]),
                         [[False, 0], [True, 4]])

    def test_no_requests_are_no_verdicts(self):
        self.assertEqual(self.analyze([], [], []), [])

    def test_lists_that_do_not_fit_are_refused(self):
        with self.assertRaises(ValueError):
            self.analyze([[{1: -0.1}]], [[1], [2]], [None])
        with self.assertRaisesRegex(ValueError, "request 1: 2 tokens"):
            self.analyze([[{1: -0.1}], [{1: -0.1}]], [[1], [1, 2]], [None, None])
        with self.assertRaises((RuntimeError, ValueError)):
            self.analyze([[{1: -0.1}]], [[1]], [None], config="absent.yaml")

    def test_pytorch_is_not_needed(self):
        import subprocess
        code = "import sys; sys.modules['torch'] = None; from msprobe.core import analyze_output_anomaly as a; print(a([[{1: -7.0}]], [[1]], [None]))"
        said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(said.strip(), "[[True, 1]]")


if __name__ == "__main__":
    unittest.main()
