#!/usr/bin/env python3
"""What `msprobe graph` makes of inputs that are broken, huge or hostile: an error with a path, or a marked node; files that parse.

usage: graph_inputs_test.py MSPROBE
"""
import json
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
MARKUP = "Module.<img src=x onerror=alert(1)>\"'`${x}</script>\u2028\u202e\n\x1b[31m.Linear.forward.0"


def tensor(most=1.0):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": most, "Min": 0.0, "Mean": 0.5, "Norm": 1.5}


def call(most=1.0):
    return {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor(most)]}


class GraphInputs(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = Path(self.scratch.name)
        self.addCleanup(self.scratch.cleanup)

    def dump(self, name, construct, data=None, stack=None):
        folder = self.root / name
        folder.mkdir(parents=True)
        data = {key: call() for key in construct} if data is None else data
        (folder / "construct.json").write_text(json.dumps(construct))
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}))
        (folder / "stack.json").write_text(json.dumps({key: ["File a.py, line 1, in f, \n x"] for key in data} if stack is None else stack))
        return folder

    def run_graph(self, *arguments, out="out", expect=0):
        done = subprocess.run([PROGRAM, "graph", *map(str, arguments), "-o", str(self.root / out)], capture_output=True, timeout=900,
                              text=True, errors="replace")
        self.assertEqual(done.returncode, expect, done.stderr[-2000:])
        return done

    def nodes(self, out="out"):
        (path,) = (self.root / out).glob("*.vis.db")
        rows = sqlite3.connect(str(path)).execute("select node_name, up_node, sub_nodes from tb_nodes where data_source = 'NPU'").fetchall()
        self.assertEqual(len(rows), len({row[0] for row in rows}))
        for name, _, below in rows:
            for child in json.loads(below or "[]"):
                self.assertIn(child, {row[0] for row in rows} if len(rows) < 100 else (child,), name)
        return {row[0]: row[1] for row in rows}

    def vis(self, out="out"):
        (path,) = (self.root / out).glob("*.vis")
        return json.loads(path.read_text())

    def test_a_million_children_of_one_node(self):
        top = "Module.top.Top.forward.0"
        construct = {top: None}
        construct.update(("Torch.add.%d.forward" % number, top) for number in range(1000000))
        folder = self.dump("many", construct, {top: call()}, {})
        self.run_graph(folder, "--format", "db")
        (path,) = (self.root / "out").glob("*.vis.db")
        database = sqlite3.connect(str(path))
        self.assertEqual(database.execute("select count(*) from tb_nodes where up_node = ?", (top,)).fetchone()[0], 1000000)
        below = database.execute("select sub_nodes from tb_nodes where node_name = ?", (top,)).fetchone()[0]
        self.assertEqual(len(json.loads(below)), 1000000)

    def test_five_thousand_modules_inside_of_each_other(self):
        # Every node names all of those above it: without a limit a file grows with the square of the depth.
        names = ["Module.m%d.M.forward.0" % number for number in range(5000)]
        folder = self.dump("deep", dict(zip(names, [None] + names)), {names[0]: call()}, {})
        done = self.run_graph(folder, folder, "--format", "db")
        self.assertIn("more than 1,000 modules deep", done.stderr)
        nodes = self.nodes()
        self.assertEqual(len(nodes), 5001)
        self.assertEqual(nodes[names[1]], names[0])
        self.assertEqual(nodes[names[1000]], "DefaultModel")
        self.assertEqual(nodes[names[1001]], names[1000])

    def test_many_modules_that_were_computed_again(self):
        again = ["File /x/torch/utils/checkpoint.py, line 1, in recompute_fn, \n y"]
        construct, stack = {}, {}
        for number in range(60000):
            for direction in ("forward", "backward"):
                name = "Module.a.b.c.d.e.f.Linear.%s.%d" % (direction, number)
                construct[name] = "Module.top.Top.forward.0" if number % 2 == 0 and direction == "forward" else None
                stack[name] = again
        construct["Module.top.Top.forward.0"] = None
        construct["Module.top.Top.backward.0"] = None
        self.run_graph(self.dump("again", construct, {}, stack), "--format", "db")
        self.assertEqual(len(self.nodes()), 120003)

    def test_names_with_markup_are_kept_as_data_and_do_not_reach_the_terminal(self):
        done = self.run_graph(self.dump("a", {MARKUP: None}), self.dump("b", {MARKUP: None}, {MARKUP: call(7.0)}))
        self.assertIn(MARKUP, self.nodes())
        self.assertIn(MARKUP, self.vis()["NPU"]["node"])
        self.assertIn("DIFFERENT", done.stdout)
        for text in (done.stdout, done.stderr):
            self.assertNotIn("\x1b[31m", text)
            self.assertNotIn("\u202e", text)

    def test_nodes_that_are_named_like_each_other(self):
        construct = {"DefaultModel": None, "Module.a.A.forward.0": "DefaultModel", "Module.a.A.Forward.0": "Module.a.A.forward.0",
                     "Module.a.A.forward.00": None, "Apis_Between_Modules.0": None, "Torch.add.0.forward": None, "Torch.add.1.forward": None,
                     "NPU_0_0_x": None, "": None, "None": None}
        self.run_graph(self.dump("alike", construct))
        nodes = self.nodes()
        self.assertEqual(nodes["Module.a.A.forward.0"], "DefaultModel")
        self.assertEqual(nodes["Module.a.A.Forward.0"], "Module.a.A.forward.0")
        self.assertEqual(nodes["Torch.add.1.forward"], "Apis_Between_Modules.1")
        self.assertEqual(set(self.vis()["node"]), set(nodes))

    def test_a_name_that_stands_twice(self):
        folder = self.dump("twice", {"Torch.add.0.forward": None})
        for file in ("construct", "dump"):
            path = folder / (file + ".json")
            text = path.read_text()
            inner = text[text.index('"Torch.add'):-1] if file == "construct" else text[text.index('"Torch.add'):-2]
            path.write_text(text.replace(inner, inner + ", " + inner, 1))
        self.run_graph(folder, folder)
        self.assertEqual(set(self.nodes()), {"DefaultModel", "Torch.add.0.forward"})

    def test_parents_in_a_circle(self):
        done = self.run_graph(self.dump("circle", {"Module.a.A.forward.0": "Module.b.B.forward.0", "Module.b.B.forward.0": "Module.c.C.forward.0",
                                                   "Module.c.C.forward.0": "Module.a.A.forward.0", "Module.d.D.forward.0": "Module.d.D.forward.0"}))
        self.assertIn("form a circle", done.stderr)
        nodes = self.nodes()
        self.assertEqual(len(nodes), 5)
        self.assertEqual(sorted(nodes.values()).count("DefaultModel"), 2)

    def test_files_that_end_early_are_named_and_nothing_is_left(self):
        folder = self.dump("whole", {"Module.a.A.forward.0": None, "Torch.add.0.forward": "Module.a.A.forward.0"})
        for file in ("construct.json", "stack.json", "dump.json"):
            text = (folder / file).read_text()
            for length in sorted({0, 1, 2, len(text) // 3, len(text) // 2, len(text) - 2, len(text) - 1}):
                (folder / file).write_text(text[:length])
                done = self.run_graph(folder, expect=3)
                self.assertIn(file, done.stderr, length)
                self.assertEqual(list((self.root / "out").glob("*")), [], (file, length))
            (folder / file).write_text(text)
        self.run_graph(folder)

    def test_values_of_other_kinds(self):
        good = {"Module.a.A.forward.0": None}
        for number, (file, value) in enumerate([("construct.json", [1, 2]), ("construct.json", "text"), ("stack.json", 5), ("dump.json", [])]):
            folder = self.dump("kind%d" % number, good)
            (folder / file).write_text(json.dumps(value))
            done = self.run_graph(folder, expect=3)
            self.assertIn(file, done.stderr)
        odd = {"Module.a.A.forward.0": None, "Torch.add.0.forward": [], "Torch.add.1.forward": 7,
               "Torch.add.2.forward": {"input_args": 5, "output": {"type": []}}, "Torch.add.3.forward": {"input_args": [[[[]]]], "output": [None]}}
        folder = self.dump("odd", {name: None for name in odd}, odd, {"Torch.add.0.forward": []})
        self.run_graph(folder, folder, "-oc")
        self.assertEqual(set(odd) <= set(self.nodes()), True)

    def test_ranks_that_do_not_match(self):
        for side, ranks in (("n", (0, 1)), ("b", (2, 3))):
            for rank in ranks:
                self.dump("%s/rank%d" % (side, rank), {"Torch.add.0.forward": None})
        done = self.run_graph(self.root / "n", self.root / "b", expect=3)
        self.assertIn("have no rank in common", done.stderr)
        done = self.run_graph(self.root / "n", self.root / "b" / "rank2", expect=3)
        self.assertIn("a rank's folder", done.stderr)
        self.dump("b/rank1", {"Torch.add.0.forward": None})
        (self.root / "n" / "rank1" / "dump.json").write_text("{")
        self.dump("b/rank0", {"Torch.add.0.forward": None})
        done = self.run_graph(self.root / "n", self.root / "b", expect=3)
        self.assertIn("rank 1 is left out", done.stderr)
        self.assertEqual(len(list((self.root / "out").glob("compare_rank0_*.vis"))), 1)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
