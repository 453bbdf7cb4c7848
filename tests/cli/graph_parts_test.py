#!/usr/bin/env python3
"""`msprobe graph --vpp`: ranks of a virtual pipeline, each with several parts of the model, become the model that one card would have.

usage: graph_parts_test.py MSPROBE
"""
import json
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
LAYERS, STAGES, PARTS = 8, 2, 2  # so two layers in each part of a rank


def tensor(value):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": value, "Min": 0.0, "Mean": value / 2, "Norm": value * 2}


class Rank:
    """The dump of a rank. The sample passes the layers in order, each adds one."""

    def __init__(self):
        self.data, self.construct, self.calls = {}, {}, 0

    def add(self, name, parent, value, result):
        self.data[name] = {"input_args": [tensor(value)], "input_kwargs": {}, "output": [tensor(result)]}
        self.construct[name] = parent

    def call(self, name, parent, value, result):
        self.add("%s.%d.forward" % (name, self.calls), parent, value, result)
        self.calls += 1

    def block(self, part, first, count, direction="forward"):
        """Layers first ... first + count - 1 of the model, numbered from 0."""
        block = "Module.%d.decoder.TransformerBlock.%s.0" % (part, direction)
        forward = direction == "forward"
        begin, end = (first, first + count) if forward else (100 + first + count, 100 + first)
        self.add(block, None, float(begin), float(end))
        for k in range(count) if forward else reversed(range(count)):
            layer = "Module.%d.decoder.layers.%d.Layer.%s.0" % (part, k, direction)
            value, result = (first + k, first + k + 1) if forward else (100 + first + k + 1, 100 + first + k)
            self.add(layer, block, float(value), float(result))
            if forward:
                self.call("Functional.linear", layer, float(value), float(result))

    def write(self, folder):
        folder.mkdir(parents=True)
        (folder / "construct.json").write_text(json.dumps(self.construct))
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix", "framework": "pytorch", "data": self.data}))
        (folder / "stack.json").write_text(json.dumps({name: ["File a.py, line 1, in f, \n x"] for name in self.data}))


def one_card():
    rank = Rank()
    rank.add("Module.0.embedding.Embedding.forward.0", None, 0.5, 0.0)
    rank.block(0, 0, LAYERS)
    rank.add("Module.0.output_layer.Linear.forward.0", None, float(LAYERS), 50.0)
    rank.block(0, 0, LAYERS, "backward")
    return rank


def ranks():
    per_part = LAYERS // STAGES // PARTS
    made = []
    for stage in range(STAGES):
        rank = Rank()
        for part in range(PARTS):
            first = (part * STAGES + stage) * per_part
            if first == 0:
                rank.add("Module.0.embedding.Embedding.forward.0", None, 0.5, 0.0)
            else:
                rank.call("Distributed.recv", None, float(first), float(first))
            rank.block(part, first, per_part)
            if first + per_part == LAYERS:
                rank.add("Module.%d.output_layer.Linear.forward.0" % part, None, float(LAYERS), 50.0)
            else:
                rank.call("Distributed.send", None, float(first + per_part), float(first + per_part))
        for part in reversed(range(PARTS)):
            rank.block(part, (part * STAGES + stage) * per_part, per_part, "backward")
        made.append(rank)
    return made


class GraphParts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for number, rank in enumerate(ranks()):
            rank.write(self.root / "parts" / ("rank%d" % number))
        one_card().write(self.root / "one/rank0")

    def run_graph(self, *arguments, expect=0):
        done = subprocess.run([PROGRAM, "graph", *map(str, arguments), "-o", str(self.root / "out"), "--quiet"], capture_output=True, timeout=120, text=True, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def test_parts_become_the_model_of_one_card(self):
        self.run_graph(self.root / "parts", "--rank-size", 2, "--tp", 1, "--pp", 2, "--vpp", 2, "--file-type", "json")
        merged = json.loads((self.root / "out/step0/rank0/dump.json").read_text())["data"]
        construct = json.loads((self.root / "out/step0/rank0/construct.json").read_text())
        expected = one_card()
        layers = lambda data, direction: [name for name in data if ".layers." in name and direction in name]  # noqa: E731
        for direction in (".forward.", ".backward."):
            self.assertEqual(layers(merged, direction), layers(expected.data, direction))
            for name in layers(merged, direction):
                for side in ("input_args", "output"):
                    self.assertEqual(merged[name][side][0]["Max"], expected.data[name][side][0]["Max"], name)
                self.assertEqual(construct[name], expected.construct[name])
        self.assertEqual({name for name in merged if name.startswith("Module.")}, {name for name in expected.data if name.startswith("Module.")})
        self.assertEqual(sum(name.startswith("Functional.linear") for name in merged), LAYERS)
        self.assertEqual(sum("_rank1" in name and name.startswith("Functional") for name in merged), LAYERS // STAGES)
        self.assertEqual([name for name in merged if ".recv" in name], [])

    def test_compared_with_one_card_every_layer_agrees(self):
        self.run_graph(self.root / "parts", self.root / "one", "--rank-size", 2, 1, "--tp", 1, 1, "--pp", 2, 1, "--vpp", 2, "--format", "db")
        (path,) = (self.root / "out").glob("*.vis.db")
        rows = sqlite3.connect(str(path)).execute("select node_name, precision_index, matched_node_link from tb_nodes where data_source = 'NPU'").fetchall()
        found = [row for row in rows if ".layers." in row[0]]
        self.assertEqual(len(found), 2 * LAYERS)
        for name, precision, link in found:
            self.assertEqual((precision, json.loads(link)[-1]), (0, name))

    def test_what_does_not_fit_is_told(self):
        sizes = ["--rank-size", 2, "--tp", 1]
        self.assertIn("needs --pp above 1", self.run_graph(self.root / "parts", *sizes, "--pp", 1, "--vpp", 2, expect=2))
        told = self.run_graph(self.root / "parts", *sizes, "--pp", 2, "--vpp", 4, expect=3)
        self.assertIn("rank0", told)
        self.assertIn("2 parts", told)
        self.assertIn("--vpp takes", self.run_graph(self.root / "parts", *sizes, "--pp", 2, "--vpp", 2, 2, expect=2))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
