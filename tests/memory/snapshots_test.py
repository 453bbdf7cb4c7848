#!/usr/bin/env python3
"""What `msprobe perf_compare A.pickle [B.pickle]` says of memory snapshots: bytes by stack against a count in Python, the words, what
was never freed, and files that are none."""
import csv
import os
import pickle
import random
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import snapshots  # noqa: E402

MSPROBE = sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["MSPROBE"]
LINEAR = snapshots.frames("/env/torch/nn/modules/linear.py:125 forward", "/home/u/model.py:43 forward", "/home/u/train.py:12 <module>")
ADAM = snapshots.frames("/env/torch/optim/adam.py:150 _init_group", "/home/u/train.py:20 <module>")
LOSSES = snapshots.frames("/home/u/log.py:8 remember", "/home/u/train.py:25 <module>")


def stack_text(frames):
    return " < ".join("/".join(frame["filename"].rsplit("/", 2)[-2:]) + f":{frame['line']} {frame['name']}" for frame in frames)


def live_by_stack(made):
    amounts = {}
    for segment in made["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                text = stack_text(block["frames"]) or "(no stack recorded)"
                bytes_, blocks = amounts.get(text, (0, 0))
                amounts[text] = (bytes_ + block["size"], blocks + 1)
    return amounts


class Snapshots(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_on(self, *names, expect=0, flags=()):
        result = subprocess.run([MSPROBE, "perf_compare", *[self.path(name) for name in names], "-o", self.path("out"), "--force", *flags],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result.stdout if expect != 2 and expect != 3 else result.stderr

    def rows(self):
        with open(self.path("out/memory.csv"), encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    def two(self, steps=4, history=True, protocol=4):
        """Weights, moments and activations that stay; losses that a list keeps from the second snapshot's steps."""
        allocator = snapshots.Allocator(history=history)
        for _ in range(6):
            allocator.allocate(1 << 20, LINEAR)
            allocator.allocate(2 << 20, ADAM)
        snapshots.write(self.path("a.pickle"), snapshots.snapshot(allocator), protocol)
        for _ in range(steps):
            block = allocator.allocate(3 << 20, LINEAR)
            allocator.allocate(1000, LOSSES)
            allocator.free(block)
        made = snapshots.snapshot(allocator)
        snapshots.write(self.path("b.pickle"), made, protocol)
        return made

    def test_what_grew(self):
        for protocol in range(6):
            with self.subTest(protocol=protocol):
                self.two(protocol=protocol)
                answer = self.run_on("a.pickle", "b.pickle")
                self.assertIn("GROWN: +4.1 kB", answer)
                self.assertIn("/home/u/log.py:8", answer.splitlines()[0])
                self.assertIn("Allocated within the record and not freed", answer)
                first = self.rows()[0]
                self.assertEqual((first["before"], first["after"], first["change"], first["blocks"]), ("0", "4096", "4096", "4"))
                self.assertEqual(first["stack"], "u/log.py:8 remember < u/train.py:25 <module>")

    def test_words_and_gate(self):
        self.two()
        self.assertIn("SHRUNK: -4.1 kB", self.run_on("b.pickle", "a.pickle"))
        self.assertIn("SAME: ", self.run_on("a.pickle", "a.pickle"))
        self.run_on("a.pickle", "b.pickle", expect=1, flags=["--fail-on", "grown"])
        self.run_on("b.pickle", "a.pickle", flags=["--fail-on", "grown"])
        self.assertIn("not about memory snapshots", self.run_on("a.pickle", "b.pickle", expect=2, flags=["--fail-on", "e2e>5%"]))
        # As profiles are given: -d is the later one.
        result = subprocess.run([MSPROBE, "perf_compare", "-d", self.path("b.pickle"), "-bp", self.path("a.pickle"), "-o",
                                 self.path("other")], capture_output=True, text=True)
        self.assertIn("GROWN", result.stdout)

    def test_one_alone(self):
        made = self.two()
        answer = self.run_on("b.pickle")
        self.assertTrue(answer.startswith("ALLOCATED: "), answer)
        for row in self.rows():
            self.assertEqual((row["before"], row["change"]), ("", ""))
        self.assertEqual({row["stack"]: (int(row["after"]), int(row["blocks"])) for row in self.rows()}, live_by_stack(made))
        self.assertIn("adam.py:150", self.rows()[0]["stack"])

    def test_random_ones(self):
        for seed in range(20):
            with self.subTest(seed=seed):
                random.seed(seed)
                sides = []
                for name in ("a.pickle", "b.pickle"):
                    made = snapshots.large(random.randrange(0, 3000), random.randrange(1, 50), seed + len(sides))
                    snapshots.write(self.path(name), made, seed % 6)
                    sides.append(live_by_stack(made))
                answer = self.run_on("a.pickle", "b.pickle")
                before, after = (sum(amount[0] for amount in side.values()) for side in sides)
                word = "GROWN" if after > before else "SHRUNK" if after < before else "SAME"
                self.assertTrue(answer.startswith(word), answer)
                found = {row["stack"]: (int(row["before"]), int(row["after"]), int(row["change"]), int(row["blocks"])) for row in self.rows()}
                wanted = {}
                for stack in set(sides[0]) | set(sides[1]):
                    one, other = sides[0].get(stack, (0, 0)), sides[1].get(stack, (0, 0))
                    wanted[stack] = (one[0], other[0], other[0] - one[0], other[1])
                self.assertEqual(found, wanted)

    def test_forms(self):
        made = self.two(history=False)
        for segment in made["segments"]:
            for block in segment["blocks"]:
                block["history"] = [{"addr": block["address"], "real_size": block["size"], "frames": block.pop("frames")}]
        snapshots.write(self.path("old.pickle"), made)
        self.run_on("old.pickle")
        self.assertIn("adam.py:150", self.rows()[0]["stack"])
        # torch.cuda.memory_snapshot() alone, under another name.
        snapshots.write(self.path("list.bin"), made["segments"])
        self.assertTrue(self.run_on("list.bin").startswith("ALLOCATED"))
        result = subprocess.run([MSPROBE, "perf_compare", self.path("old.pickle"), "-o", self.path("page"), "--format", "csv,html"],
                                capture_output=True, text=True)
        if "built without the page" not in result.stderr:
            self.assertIn("memory.html", result.stdout)

    def test_what_is_none(self):
        snapshots.write(self.path("dict.pickle"), {"a": 1})
        self.assertIn("none of a memory snapshot", self.run_on("dict.pickle", expect=3))
        with open(self.path("cut.pickle"), "wb") as file:
            file.write(pickle.dumps(self.two())[:-50])
        self.assertIn("cut.pickle", self.run_on("cut.pickle", expect=3))

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {shlex.quote(self.mark)}",)
        evil = Evil()
        evil.mark = self.path("executed")
        snapshots.write(self.path("evil.pickle"), {"segments": [], "device_traces": [], "x": evil})
        self.run_on("evil.pickle")
        self.assertFalse(os.path.exists(self.path("executed")))
        bad = {"segments": [{"total_size": -5, "blocks": []}, {"total_size": 1 << 60, "blocks": []}, 7,
                            {"total_size": 1024, "blocks": [{"size": 1 << 40, "state": "active_allocated"}, {"size": "x"}, {"state": 3}]}],
               "device_traces": [[{"action": "alloc", "addr": 1, "size": -1}, {"action": 5}, None], 3, "text"]}
        snapshots.write(self.path("bad.pickle"), bad)
        self.run_on("bad.pickle")


if __name__ == "__main__":
    unittest.main()
