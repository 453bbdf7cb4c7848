#!/usr/bin/env python3
"""Small dumps, each with one fault: `msprobe compare` says what the value is of the reference's, on the screen and in
summary.json, and says nothing where nothing simple explains it. Usage: relation_test.py MSPROBE"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    sys.exit(77)

MSPROBE = sys.argv.pop(1)
DTYPES = {"float32": "torch.float32", "float16": "torch.float16", "int64": "torch.int64", "float64": "torch.float64"}


def leaf(folder, name, value):
    """A tensor of a dump.json, and its file."""
    file = name + ".npy"
    np.save(os.path.join(folder, "dump_tensor_data", file), value)
    wide = value.astype(np.float64)
    return {"type": "torch.Tensor", "dtype": DTYPES[str(value.dtype)], "shape": list(value.shape), "Max": float(wide.max()),
            "Min": float(wide.min()), "Mean": float(wide.mean()), "Norm": float(np.sqrt((wide**2).sum())),
            "requires_grad": False, "data_name": file}


def write(folder, entries, task="tensor", step=0):
    """entries: {name: {section: {argument: array}}}."""
    rank = os.path.join(folder, "step%d" % step, "rank")
    os.makedirs(os.path.join(rank, "dump_tensor_data"))
    data = {}
    for name, sections in entries.items():
        if name.endswith("parameters_grad"):
            data[name] = {key: [leaf(rank, "%s.%s" % (name, key), value)] for key, value in sections.items()}
            continue
        data[name] = {"input_args": [], "input_kwargs": {}, "output": []}
        for section, values in sections.items():
            place = {"input": "input_args", "output": "output"}[section]
            data[name][place] = [leaf(rank, "%s.%s.%d" % (name, section, i), value) for i, value in enumerate(values)]
    with open(os.path.join(rank, "dump.json"), "w") as file:
        json.dump({"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": os.path.join(rank, "dump_tensor_data"),
                   "data": data}, file)


class Relations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.random = np.random.RandomState(5)

    def compare(self, npu, bench, task="tensor", lang="en"):
        """npu, bench: entries by step. The first line and the first divergence."""
        for side, steps in (("npu", npu), ("bench", bench)):
            for step, entries in enumerate(steps):
                write(os.path.join(self.folder.name, side), entries, task, step)
        out = os.path.join(self.folder.name, "out")
        run = subprocess.run([MSPROBE, "compare", os.path.join(self.folder.name, "npu"), os.path.join(self.folder.name, "bench"),
                              "-o", out, "--format", "csv", "--lang", lang], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.said = run.stdout.decode()
        with open(os.path.join(out, "summary.json")) as file:
            self.summary = json.load(file)
        tables = [os.path.join(path, name) for path, _, names in os.walk(out) for name in names if name.endswith(".csv")]
        with open(tables[0]) as file:
            self.header = file.readline()
        pair = self.summary["pairs"][self.summary["first_divergence_pair"] or 0]
        first = pair["first_divergence"]
        if first:
            self.assertEqual(first["ranks"], [])
            self.assertEqual(pair["first_by_kind"][first["kind"]]["relation"], first["relation"])
        return self.said.splitlines()[0], first

    def call(self, output, name="Functional.linear.0.forward"):
        value = np.arange(12, dtype=np.float32).reshape(3, 4)
        return {name: {"input": [value], "output": [output]}}

    def expect(self, npu, bench, kind, line=None, factor=None, task="tensor"):
        said, first = self.compare([self.call(npu)], [self.call(bench)], task)
        self.assertIsNotNone(first["relation"], said)
        self.assertEqual(first["relation"]["kind"], kind)
        self.assertEqual(first["relation"]["factor"], factor)
        if line:
            self.assertEqual(said, "DIFFERENT: output.0 of Functional.linear.0.forward is " + line)

    def values(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def test_scale(self):
        value = self.values(8, 16)
        self.expect(value * 2, value, "scale", "2.000 x the reference", 2)

    def test_gradient(self):
        grad, value = self.values(8, 16), self.values(4, 8)
        name = "Module.decoder.layers.1.mlp.fc2.Linear.parameters_grad"
        forward = {"Module.decoder.layers.1.mlp.fc2.Linear.forward.0": {"input": [value], "output": [value + 1]}}
        line, first = self.compare([{**forward, name: {"weight": grad * 2}}], [{**forward, name: {"weight": grad}}])
        self.assertEqual(line, "DIFFERENT: gradient of decoder.layers.1.mlp.fc2.weight is 2.000 x the reference (reduced twice?)")
        self.assertEqual(first["relation"], {"kind": "scale", "factor": 2.0, "text": "2.000 x the reference (reduced twice?)"})
        self.assertNotIn("Relation", self.header)

    def test_loss_scale_divided_twice(self):
        grad = self.values(8, 16)
        name = "Module.fc.Linear.parameters_grad"
        line, _ = self.compare([{name: {"weight": grad / 65536}}], [{name: {"weight": grad}}])
        self.assertEqual(line, "DIFFERENT: gradient of fc.weight is 1/65,536 of the reference (divided by the loss scale twice?)")

    def test_constant(self):
        value = self.values(8, 16)
        self.expect(value + np.float32(0.5), value, "constant", "0.5000 more than the reference")

    def test_bias_twice(self):
        value = self.values(8, 16)
        self.expect(value + self.values(16), value, "constant",
                    "one vector along dimension 1 more than the reference (a bias added twice?)")

    def test_label_moved_twice(self):
        labels = self.random.randint(0, 1000, (2, 32))
        moved = np.concatenate([labels[:, 1:], np.full((2, 1), -100)], axis=1)
        self.expect(moved, labels, "shift", "moved by -1 along dimension 1 against the reference")

    def test_roll(self):
        value = self.values(10, 16)
        self.expect(np.roll(value, 3, axis=0), value, "shift", "moved around by 3 along dimension 0 against the reference")

    def test_halves_swapped(self):
        value = self.values(8, 32)
        self.expect(np.roll(value, 16, axis=1), value, "permutation",
                    "with 2 blocks along dimension 1 in another order than the reference")

    def test_transposed(self):
        value = self.values(16, 16)
        self.expect(np.ascontiguousarray(value.T), value, "transpose", "with dimensions 0 and 1 swapped against the reference")

    def test_transposed_shape(self):
        value = self.values(16, 12)
        self.expect(np.ascontiguousarray(value.T), value, "transpose", "with dimensions 0 and 1 swapped against the reference")

    def test_zeros(self):
        value = self.values(16, 12)
        missing = value.copy()
        missing[8:] = 0
        self.expect(missing, value, "missing_part", "with zeros at indices 8-15 of dimension 0, otherwise equal to the reference")

    def test_wrong_part(self):
        value = self.values(16, 12)
        wrong = value.copy()
        wrong[8:] = value[:8]
        self.expect(wrong, value, "wrong_part", "in 1 of 2 blocks along dimension 0 another part of the reference")

    def test_precision(self):
        value = self.values(16, 12)
        self.expect(value.astype(np.float16).astype(np.float32), value, "precision",
                    "after rounding to float16 equal to the reference")

    def test_stale_call(self):
        first, second = self.values(16, 12), self.values(16, 12)
        names = ("Functional.linear.0.forward", "Functional.linear.1.forward")
        line, found = self.compare([{**self.call(first, names[0]), **self.call(first, names[1])}],
                                   [{**self.call(first, names[0]), **self.call(second, names[1])}])
        self.assertEqual(found["relation"]["kind"], "stale")
        self.assertEqual(line, "DIFFERENT: output.0 of Functional.linear.1.forward is the value in call 0, not 1, of the reference "
                               "(a value is used again?)")

    def test_stale_step(self):
        first, second = self.values(16, 12), self.values(16, 12)
        line, found = self.compare([self.call(first), self.call(first)], [self.call(first), self.call(second)])
        self.assertEqual(found["relation"]["kind"], "stale")
        self.assertIn("is the value in the step before of the reference", line)

    def test_statistics(self):
        value = self.values(8, 16)
        self.expect(value * np.float32(0.25), value, "scale", "0.2500 x the reference", 0.25, task="statistics")

    def test_statistics_hide_places(self):
        value = self.values(16, 16)
        changed = np.roll(value, 3, axis=0)
        changed[0] += 1
        line, first = self.compare([self.call(changed)], [self.call(value)], "statistics")
        self.assertIsNone(first["relation"])
        self.assertTrue(line.startswith("DIFFERENT: it starts with"), line)

    def test_nothing_simple(self):
        value = self.values(16, 12)
        symmetric = value @ value.T
        one = symmetric.copy()
        one[2, 5] += 7
        for index, (npu, bench) in enumerate([(self.values(16, 12), value), (value + self.values(16, 12) * np.float32(0.1), value),
                                              (one, symmetric), (np.full((4, 4), 3, np.float32), np.full((4, 4), 5, np.float32)),
                                              (np.zeros((4, 4), np.float32), self.values(4, 4))]):
            self.folder = tempfile.TemporaryDirectory()
            line, first = self.compare([self.call(npu)], [self.call(bench)])
            self.assertIsNone(first["relation"], "%d: %s" % (index, line))
            self.assertTrue(line.startswith("DIFFERENT: it starts with"), line)
            self.folder.cleanup()

    def test_noise(self):
        value = self.values(16, 12)
        line, first = self.compare([self.call(value * np.float32(1 + 1e-7))], [self.call(value)])
        self.assertIsNone(first)

    def test_chinese(self):
        for change, text in ((lambda v: v * 2, "output.0"), (lambda v: np.roll(v, 3, axis=0), "移动"), (lambda v: v + np.float32(2), "加上")):
            value = self.values(10, 16)
            self.folder = tempfile.TemporaryDirectory()
            line, _ = self.compare([self.call(change(value))], [self.call(value)], lang="zh")
            self.assertIn("标杆", line)
            self.assertIn(text, line)
            self.assertFalse(re.search(r"\b(the|of|is|than|reference|along)\b", line), line)
            self.folder.cleanup()


if __name__ == "__main__":
    unittest.main(verbosity=2)
