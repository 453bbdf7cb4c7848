#!/usr/bin/env python3
"""`msprobe graph --rank-size`: ranks that share a model by tensor, context, (virtual) pipeline parallelism become the model of one card.

usage: graph_parts_test.py MSPROBE
"""
import json
import math
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from megatron_dumps import Sizes, write_run

PROGRAM = None
LAYERS = 8


def near(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)


class GraphParts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.runs = Path(cls.scratch.name)
        write_run(cls.runs / "one", Sizes())

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)

    def run_graph(self, *arguments, expect=0):
        done = subprocess.run([PROGRAM, "graph", *map(str, arguments), "-o", str(self.root / "out")], capture_output=True, timeout=120, text=True, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def dumps(self, name="run", change=None, **sizes):
        """The flags of that many ranks, and their dumps."""
        made = Sizes(**sizes)
        write_run(self.root / name, made, change)
        flags = ["--rank-size", made.ranks, "--tp", made.tp, "--pp", made.pp]
        return self.root / name, flags + (["--vpp", made.vpp] if made.vpp > 1 else [])

    def beside_one_card(self, **sizes):
        """Nodes of the merged run beside those of one card: name -> (figure, its partner, inputs and outputs), and what was told."""
        run, flags = self.dumps(**sizes)
        both = [part for flag in zip(flags[::2], flags[1::2]) for part in (*flag, 1)]
        told = self.run_graph(run, self.runs / "one", *both, "--format", "vis,db")
        (path,) = (self.root / "out").glob("*.vis.db")
        rows = sqlite3.connect(str(path)).execute("select node_name, precision_index, matched_node_link from tb_nodes where data_source = 'NPU'").fetchall()
        (vis,) = (self.root / "out").glob("*.vis")
        vis = json.loads(vis.read_text())
        found = {name: (figure, (json.loads(link) or [None])[-1]) for name, figure, link in rows}
        return found, vis, told

    def assert_one_model(self, found, vis, exact_shapes=True):
        """Every module of one card has a partner that agrees, in values and shape."""
        bench = vis["Bench"]["node"]
        matched = {partner: name for name, (_, partner) in found.items() if partner}
        for name, node in bench.items():
            if not name.startswith("Module.") or ".parameters_grad" in name:
                continue
            self.assertIn(name, matched)
            self.assertEqual(found[matched[name]][0], 0, name)
            ours = vis["NPU"]["node"][matched[name]]
            for side in ("input_data", "output_data"):
                for (item, value), (_, whole) in zip(ours[side].items(), node[side].items()):
                    if "Max" not in whole or "Max" not in value:
                        continue
                    for stat in ("Max", "Min", "Norm"):
                        self.assertTrue(near(float(value[stat]), float(whole[stat])), (item, stat, value, whole))
                    if exact_shapes:
                        self.assertEqual(value["shape"], whole["shape"], item)

    def test_stages_become_one_model(self):
        self.assert_one_model(*self.beside_one_card(pp=4)[:2])

    def test_parts_of_virtual_pipelines_become_one_model(self):
        found, vis, told = self.beside_one_card(pp=2, vpp=2)
        self.assert_one_model(found, vis)
        self.assertEqual(told, "")
        modules = {name for name in found if name.startswith("Module.")}
        self.assertEqual(modules, {name for name in vis["Bench"]["node"] if name.startswith("Module.")})
        # Around all layers: given what the first part is given, made what the last one makes; backward the other way round.
        numbers = [name.split(".layers.")[1].split(".")[0] for name in vis["NPU"]["node"]["Module.0.module.decoder.TransformerBlock.forward.0"]["subnodes"] if ".layers." in name]
        self.assertEqual(numbers, [str(number) for number in range(LAYERS)])
        numbers = [name.split(".layers.")[1].split(".")[0] for name in vis["NPU"]["node"]["Module.0.module.decoder.TransformerBlock.backward.0"]["subnodes"]]
        self.assertEqual(numbers, [str(number) for number in reversed(range(LAYERS))])

    def test_a_block_whose_later_parts_record_their_inputs(self):
        def given(entry_name, entry):
            if "TransformerBlock.forward" in entry_name and entry["input_args"] == [None]:
                entry["input_args"] = [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 77.0, "Min": 1.0, "Mean": 2.0, "Norm": 3.0}]
        run, flags = self.dumps(change=given, pp=2, vpp=2)
        self.run_graph(run, *flags, "--file-type", "json")
        merged = json.loads((self.root / "out/step0/rank0/dump.json").read_text())["data"]
        one = json.loads((self.runs / "one/rank0/dump.json").read_text())["data"]
        for name in ("Module.0.module.decoder.TransformerBlock.forward.0", "Module.0.module.decoder.TransformerBlock.backward.0"):
            for side in ("input_args" if "forward" in name else "input", "output"):
                self.assertEqual(merged[name][side][0]["Max"], one[name][side][0]["Max"], name)

    def test_shards_become_whole_tensors(self):
        found, vis, _ = self.beside_one_card(tp=2)
        self.assert_one_model(found, vis)
        linear = vis["NPU"]["node"]["Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"]["input_data"]
        weight = linear["Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0.parameters.weight"]
        self.assertEqual((weight["shape"], weight["local_shape"]), ("[32, 16]", "[16, 16]"))

    def test_shards_whose_sequence_is_divided_between_the_layers(self):
        self.assert_one_model(*self.beside_one_card(tp=2, sequence_parallel=True)[:2])

    def test_tensor_and_pipeline_parallelism_together(self):
        found, vis, _ = self.beside_one_card(tp=2, pp=2, vpp=2, sequence_parallel=True)
        self.assert_one_model(found, vis)
        self.assertEqual(found["Torch.matmul_rank2.0.forward"][0] is not None, True)
        self.assertEqual([name for name in found if name.startswith("Torch.matmul_rank3")], [])

    def test_a_sequence_in_parts_is_told_by_the_calls_of_attention(self):
        found, vis, told = self.beside_one_card(tp=2, cp=2, pp=2)
        self.assertIn("as with --cp 2", told)
        self.assert_one_model(found, vis)

    def test_parts_of_a_sequence_that_are_kept_apart(self):
        run, flags = self.dumps(cp=2)
        self.run_graph(run, *flags, "--cp", 1, "--format", "db")
        (path,) = (self.root / "out").glob("*.vis.db")
        self.assertEqual(json.loads(sqlite3.connect(str(path)).execute("select rank_list from tb_config").fetchone()[0]), [0, 1])

    def test_groups_that_the_calls_tell_come_before_the_order(self):
        run, flags = self.dumps(tp=2, pp=2, dp=2)
        told = self.run_graph(run, *flags, "--order", "pp-tp-dp", "--file-type", "json")
        self.assertIn("tensor parallelism between ranks [0, 1], not [0, 2]", told)
        merged = json.loads((self.root / "out/step0/rank0/dump.json").read_text())["data"]
        info = merged["Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"]["parallel_merge_info"]
        self.assertIn("from rank [0, 1]", info[0])
        self.assertEqual(sorted(path.name for path in (self.root / "out/step0").iterdir()), ["rank0", "rank1"])

    def test_calls_between_modules_stay_those_of_their_ranks(self):
        run, flags = self.dumps(tp=2, pp=2)
        self.run_graph(run, *flags, "--file-type", "json")
        construct = json.loads((self.root / "out/step0/rank0/construct.json").read_text())
        self.assertEqual(construct["Torch.mean_rank2.0.forward"], "Apis_Between_Modules_Rank2.0")
        self.assertEqual(construct["Distributed.send.0.forward"], "Apis_Between_Modules_Rank0.0")
        self.assertEqual([name for name in construct if construct[name] == "Apis_Between_Modules_All_Ranks.0"], ["Apis_Between_Modules_Rank%d.0" % rank for rank in range(4)])

    def test_a_node_that_another_rank_lacks_is_told(self):
        run, flags = self.dumps(tp=2)
        path = run / "rank1/dump.json"
        dump = json.loads(path.read_text())
        del dump["data"]["Functional.gelu.3.forward"]
        path.write_text(json.dumps(dump))
        self.assertIn("1 node of rank 0 cannot be merged", self.run_graph(run, *flags, "--format", "db"))

    def test_what_does_not_fit_is_told(self):
        run, flags = self.dumps(pp=2, vpp=2)
        sizes = ["--rank-size", 2, "--tp", 1]
        self.assertIn("needs --pp above 1", self.run_graph(run, *sizes, "--pp", 1, "--vpp", 2, expect=2))
        told = self.run_graph(run, *sizes, "--pp", 2, "--vpp", 4, expect=3)
        self.assertIn("rank0", told)
        self.assertIn("2 parts", told)
        self.assertIn("--vpp takes", self.run_graph(run, *sizes, "--pp", 2, "--vpp", 2, 2, expect=2))
        self.assertIn("--cp", self.run_graph(run, *sizes, "--pp", 2, "--vpp", 2, "--cp", 2, expect=2))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
