"""The pairs: every layout computes what the whole does, every fault acts where it was planted, and compare names it.

How often compare does over hundreds of pairs: run_pairs.py.
"""
import os
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "diagnosis"))

import judging  # noqa: E402
import models  # noqa: E402
import pairs  # noqa: E402
import parallel  # noqa: E402
import runs  # noqa: E402

# One seed for each of some kinds of faults, layouts that differ.
SEEDS = (2, 9, 10, 12, 14, 17, 18, 27, 29)
MADE = []  # the pairs of these seeds, in a folder that lives as long as the tests


def setUpModule():
    scratch = tempfile.TemporaryDirectory(prefix="msprobe_layout_")
    unittest.addModuleCleanup(scratch.cleanup)
    for seed in SEEDS:
        pair = pairs.make(scratch.name, seed)
        if (pair.told.get("skipped") or "").startswith("needs PyTorch"):
            print("seed %d %s" % (seed, pair.told["skipped"]))
        else:
            MADE.append(pair)


def gradients(folder, rank):
    return torch.load(os.path.join(folder, "gradients%d.pt" % rank))[0]


class Layouts(unittest.TestCase):
    """The generator itself: a layout must not change the model, or every truth would be wrong."""

    def check(self, **settings):
        with tempfile.TemporaryDirectory(prefix="msprobe_layout_") as scratch:
            setup = dict(family="GPT", style="parallel", order="sbh", hidden=24, heads=6, ffn=48, layers=2, length=12, batch=4,
                         vocabulary=31, table=36, qkv="blocks", gated=True, bias=True, row_bias=True, positions="rope", micro=1,
                         steps=1, task="statistics", level="L0", optimizer="SGD", records_update=False, experts=4, top=2,
                         channels=8, seed=3)
            setup.update(settings)
            whole = dict(setup, style="plain", table=31, micro=1)
            for axis in ("tp", "cp", "dp", "pp", "vpp", "ep", "sp"):
                whole.pop(axis, None)
            runs.run(whole, os.path.join(scratch, "whole"))
            runs.run(setup, os.path.join(scratch, "parts"))
            wanted, grid = gradients(os.path.join(scratch, "whole"), 0), runs.grid_of(setup)
            for rank in range(grid.world):
                found = gradients(os.path.join(scratch, "parts"), rank)
                self.assertGreater(len(found), 5)
                for path, gradient in found.items():
                    expected = self.padded(setup, path, wanted[path])
                    expected = models.placement(setup, path, grid.size["tp"]).cut(expected, grid.place(rank)["tp"])
                    self.assertEqual(expected.shape, gradient.shape)
                    distance = float((expected - gradient).norm() / expected.norm())
                    self.assertLess(distance, 1e-5, (settings, rank, path))

    @staticmethod
    def padded(setup, path, gradient):
        missing = setup["table"] - gradient.shape[0] if "word_embeddings" in path or path.startswith("output_layer") else 0
        return torch.cat([gradient, torch.zeros(missing, gradient.shape[1])]) if missing else gradient

    def test_tensor_and_sequence_parallel_data_parallel_and_stages(self):
        self.check(tp=2, sp=True, dp=2, pp=2, micro=2)

    def test_context_parallel(self):
        self.check(cp=2, tp=2)

    def test_virtual_stages(self):
        self.check(pp=2, vpp=2, layers=4, micro=2)

    def test_expert_parallel(self):
        self.check(family="MoE", dp=2, ep=2)


class Faults(unittest.TestCase):
    def test_every_fault_acts_where_it_was_planted(self):
        for pair in MADE:
            self.assertIsNone(pair.told.get("skipped"), pair.told.get("error"))
            self.assertIsNone(pair.told["doubt"], pair.told["seed"])


class Answers(unittest.TestCase):
    """What compare says about each of these pairs."""

    def ask(self, pair, side):
        with tempfile.TemporaryDirectory(prefix="msprobe_layout_") as out:
            _, summary, answer = judging.ask(os.environ["MSPROBE"], pair, side, os.path.join(out, "result"))
            return answer, judging.judge_layouts(pair.told, summary, os.path.join(out, "result"))

    def test_every_fault_is_named_with_its_place_relation_and_ranks(self):
        for pair in MADE:
            answer, _ = self.ask(pair, "npu")
            self.assertEqual(judging.judge(pair.told, answer), "right",
                             (pair.told["seed"], pair.told["kind"], answer.call, answer.row, answer.relation, answer.ranks))

    def test_a_run_without_its_fault_is_not_accused_and_its_layout_is_told(self):
        for pair in MADE:
            answer, layouts = self.ask(pair, "clean")
            self.assertFalse(answer.named, (pair.told["seed"], answer.call, answer.row))
            self.assertEqual([], [row for row in layouts if row[2] != row[3]], pair.told["seed"])


class Judging(unittest.TestCase):
    TOLD = {"layers": {"0.decoder.layers.0": "decoder.layers.4"}, "experts": {"0.decoder.layers.0.mlp.experts.local_experts.1": 3}}

    def test_local_names_become_global_ones(self):
        self.assertEqual(judging.global_path(self.TOLD, "0.decoder.layers.0.mlp.fc1"), "decoder.layers.4.mlp.fc1")
        self.assertEqual(judging.global_path(self.TOLD, "0.decoder.layers.0.mlp.experts.local_experts.1.fc1"),
                         "decoder.layers.4.mlp.experts.local_experts.3.fc1")

    def test_a_place_is_a_direction_and_a_path(self):
        places = judging.places_of("Module.a.b.Linear.forward.0", "Module.a.b.Linear.forward.0.parameters.weight", "parameter", 0, [])
        self.assertIn("parameter a.b.weight", places)
        places = judging.places_of("Module.a.b.Linear.parameters_grad.reduced", "Module.a.b.Linear.parameters_grad.reduced.bias",
                                   "computation", 0, [])
        self.assertEqual(places, {"gradient a.b.bias"})
        self.assertTrue(judging.is_at("gradient a.b.bias", "gradient *"))
        self.assertFalse(judging.is_at("forward a.b", "forward a.bc"))

    def test_context_parallel_ranks_share_a_sequence_evenly(self):
        chunks = [models.sequence_chunks(rank, 2) for rank in range(2)]
        self.assertEqual(sorted(chunks[0] + chunks[1]), [0, 1, 2, 3])
        grid = parallel.Grid(tp=2, dp=2, pp=2)
        self.assertEqual([grid.group(5, axes) for axes in (("tp",), ("dp",), ("pp",))], [[4, 5], [5, 7], [1, 5]])


if __name__ == "__main__":
    unittest.main()
