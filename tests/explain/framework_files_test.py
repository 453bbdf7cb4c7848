"""Rollouts as frameworks store them, read by rl_compare: the same samples as JSON lines, PyTorch files, npz and SingleSave give the same numbers."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    print("numpy is not installed: skipped")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

MSPROBE = os.environ["MSPROBE"]


def samples(step, shift=0.0):
    draw = random.Random(step)
    made = []
    for index in range(12):
        length = draw.randint(3, 9)
        logs = [-draw.random() - 0.01 for _ in range(length)]
        made.append({"index": index, "prompt_ids": [5, 6], "response_ids": [draw.randint(1, 90) for _ in range(length)],
                     "rollout_log_probs": [value + shift * draw.random() for value in logs], "loss_mask": [1] * (length - 1) + [0],
                     "response": "a text", "weight_versions": [str(step)]})
    return made


def padded(rows, pad):
    longest = max(map(len, rows))
    return numpy.array([row + [pad] * (longest - len(row)) for row in rows])


def batch(made):
    return {"rollout_log_probs": padded([s["rollout_log_probs"] for s in made], 0.0),
            "responses": padded([s["response_ids"] for s in made], 0), "response_mask": padded([s["loss_mask"] for s in made], 0)}


class FrameworkFiles(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def path(self, name):
        path = os.path.join(self.scratch.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def run_compare(self, first, second, *more):
        return subprocess.run([MSPROBE, "rl_compare", first, second, "-o", "none", "--json", *more], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)

    def tokens(self, first, second, key="rollout_log_probs", *more):
        done = self.run_compare(first, second, "--tokens", key, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        return next(s for s in answer["sections"] if s["title"].startswith("tokens of"))

    def write_lines(self, folder, shift=0.0):
        for step in range(3):
            with open(self.path("%s/%d.jsonl" % (folder, step)), "w") as out:
                for sample in samples(step, shift):
                    out.write(json.dumps(sample) + "\n")
        return os.path.join(self.scratch.name, folder)

    def write_single_save(self, folder, shift):
        for step in range(3):
            for key, array in batch(samples(step, shift)).items():
                numpy.save(self.path("%s/data/%s/step%d/rank0/%s.npy" % (folder, key, step, key)), array)
        return os.path.join(self.scratch.name, folder)

    def test_all_formats_agree(self):
        expected = self.tokens(self.write_single_save("saved_a", 0), self.write_single_save("saved_b", 0.1), "rollout_log_probs",
                               "--mask", "response_mask", "--ids", "responses")
        lines = self.write_lines("lines_a")
        self.assertEqual(self.tokens(lines, self.write_lines("lines_b", 0.1)), expected)
        with open(self.path("one_b.jsonl"), "w") as out:
            for step in range(3):
                for sample in samples(step, 0.1):
                    out.write(json.dumps(dict(sample, global_step=step)) + "\n")
        self.assertEqual(self.tokens(lines, self.path("one_b.jsonl")), expected)
        for step in range(3):
            numpy.savez(self.path("npz_b/step%d.npz" % step), **batch(samples(step, 0.1)))
        self.assertEqual(self.tokens(lines, self.path("npz_b")), expected)
        self.assertEqual(self.tokens(lines, os.path.join(self.scratch.name, "saved_b")), expected)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_torch_files(self):
        expected = self.tokens(self.write_lines("lines_a"), self.write_lines("lines_b", 0.1))
        for step in range(3):
            made = samples(step, 0.1)
            torch.save({"rollout_id": step, "samples": made}, self.path("slime_b/%d.pt" % step))
            torch.save({"batch": {key: torch.tensor(array) for key, array in batch(made).items()}, "meta_info": {"name": "x"}},
                       self.path("verl_b/%d.pt" % step))
            torch.save([{key: torch.tensor(value) if key == "rollout_log_probs" else value for key, value in s.items()} for s in made],
                       self.path("list_b/%d.pt" % step))
            torch.save({"rollout_log_probs": [torch.tensor(s["rollout_log_probs"], dtype=torch.float64) for s in made],
                        "response_ids": [s["response_ids"] for s in made], "loss_masks": [s["loss_mask"] for s in made]},
                       self.path("lists_b/%d.pt" % step))
        lines = os.path.join(self.scratch.name, "lines_a")
        for folder in ("slime_b", "verl_b", "lists_b"):
            self.assertEqual(self.tokens(lines, self.path(folder)), expected, folder)
        self.assertIn("tokens compared", json.dumps(self.tokens(lines, self.path("list_b"))))

    def test_names_of_frameworks_and_explain(self):
        with open(self.path("a.jsonl"), "w") as a, open(self.path("b.jsonl"), "w") as b:
            for sample in samples(0):
                a.write(json.dumps({"tokens": [5, 6] + sample["response_ids"], "generation_logprobs": sample["rollout_log_probs"]}) + "\n")
                b.write(json.dumps({"prev_logprobs": [value - 0.1 for value in sample["rollout_log_probs"]]}) + "\n")
        done = self.run_compare(self.path("a.jsonl"), self.path("b.jsonl"), "--tokens", "generation_logprobs=prev_logprobs", "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        causes = next(s for s in json.loads(done.stdout)["sections"] if s["title"] == "Causes")
        self.assertAlmostEqual(sum(row[1] for row in causes["blocks"][1]["rows"]), 1, places=6)

    def test_bad_files(self):
        good = self.write_lines("good")
        for name, content, message in (("p.parquet", b"PAR1....", "Parquet is not read"), ("z.jsonl", b"\x1f\x8b1234", "compressed"),
                                       ("line.jsonl", b'{"log_probs": [1]}\n{"log_probs": [1\n', "line 2"), ("e.jsonl", b"", "empty"),
                                       ("s.jsonl", b'{"step": -3, "log_probs": [-1]}\n', "step"), ("l.jsonl", b"[1, 2]", "something else than objects"),
                                       ("d.jsonl", b'{"samples": ' * 9 + b"[]" + b"}" * 9, "deep"), ("none.npz", b"PK\3\4nothing", "none.npz")):
            with open(self.path(name), "wb") as out:
                out.write(content)
            done = self.run_compare(self.path(name), good, "--tokens", "log_probs")
            self.assertEqual(done.returncode, 3, name)
            self.assertIn(message, done.stderr, name)
            self.assertIn(name, done.stderr)

    def test_nothing_is_written_by_the_names_of_a_file(self):
        with open(self.path("evil.jsonl"), "w") as out:
            out.write(json.dumps({"../../evil": [1], "/etc/evil": [2], "log_probs": [-1.0, -2.0]}) + "\n")
        done = self.run_compare(self.path("evil.jsonl"), self.write_lines("good"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("evil\"", done.stdout)


if __name__ == "__main__":
    unittest.main()
