#!/usr/bin/env python3
"""compare of runs that are not cut in the same way, on dumps made of whole tensors and their parts.

usage: compare_layouts_test.py MSPROBE      (77 without NumPy)
"""
import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
except ImportError:
    sys.exit(77)

MSPROBE = None
BATCH, WIDTH, INNER = 4, 6, 8


def described(values, name=None):
    values = numpy.asarray(values)
    statistics = {"Max": float(values.max()), "Min": float(values.min()), "Mean": float(values.mean(dtype=numpy.float64)),
                  "Norm": float(numpy.linalg.norm(values.astype(numpy.float64)))}
    leaf = {"type": "torch.Tensor", "dtype": "torch." + str(values.dtype), "shape": list(values.shape), **statistics, "requires_grad": False}
    return {**leaf, "data_name": name} if name else leaf


class Rank:
    """What one rank records: calls in their order."""

    def __init__(self, tensors):
        self.tensors, self.data, self.files, self.parents = tensors, {}, {}, {}

    def leaf(self, name, values):
        if not self.tensors:
            return described(values)
        self.files[name + ".npy"] = numpy.asarray(values)
        return described(values, name + ".npy")

    def call(self, name, inputs, outputs, parent=None, **more):
        self.data[name] = {"input_args": [self.leaf("%s.input.%d" % (name, i), v) if isinstance(v, numpy.ndarray) else v for i, v in enumerate(inputs)],
                           "input_kwargs": {}, "output": [self.leaf("%s.output.%d" % (name, i), v) for i, v in enumerate(outputs)]}
        for section, values in more.items():
            self.data[name][section] = {key: self.leaf("%s.%s.%s" % (name, section, key), value) for key, value in values.items()}
        self.parents[name] = parent

    def gradient(self, module, values):
        self.data[module + ".parameters_grad"] = {key: [self.leaf("%s.parameters_grad.%s" % (module, key), value)] for key, value in values.items()}

    def write(self, folder, layout=None):
        folder.mkdir(parents=True)
        task = "tensor" if self.tensors else "statistics"
        (folder / "dump.json").write_text(json.dumps({"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": self.data}))
        (folder / "construct.json").write_text(json.dumps(self.parents))
        if layout is not None:
            (folder / "layout.json").write_text(json.dumps({"schema_version": 1, **layout}))
        if self.tensors:
            (folder / "dump_tensor_data").mkdir()
            for name, values in self.files.items():
                numpy.save(folder / "dump_tensor_data" / name, values)


class Model:
    """x -> fused two-part projection -> product of the parts -> row-parallel projection -> reduction -> loss."""

    def __init__(self, seed=7):
        draw = numpy.random.default_rng(seed)
        self.x = draw.standard_normal((BATCH, WIDTH)).astype(numpy.float32)
        self.up = draw.standard_normal((2 * INNER, WIDTH)).astype(numpy.float32)
        self.down = draw.standard_normal((WIDTH, INNER)).astype(numpy.float32)
        self.norm = draw.standard_normal(WIDTH).astype(numpy.float32) + 3

    def run(self, folder, tp=1, dp=1, micro_batches=1, tensors=False, layout=False, fault="", blocks=True, ranks=None, split=False):
        world = tp * dp
        step = folder / "step0"
        for rank in range(world):
            if ranks is None or rank in ranks:
                recorded = self.layout(rank, tp, dp, split) if layout else None
                self.rank(rank, tp, dp, micro_batches, tensors, fault, split).write(step / ("rank" if world == 1 else "rank%d" % rank), recorded)
        return folder

    @staticmethod
    def layout(rank, tp, dp, split=False):
        t, d = rank % tp, rank // tp
        if split:
            return {"rank": 0, "world_size": 1, "parameters": {"model.%s.weight" % name: {"kind": "replicated"} for name in (
                "first_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}}
        return {"rank": rank, "world_size": tp * dp, "groups": {"tp": [d * tp + i for i in range(tp)], "dp": [i * tp + t for i in range(dp)]},
                "parameters": {"up.weight": {"kind": "shard", "dim": 0, "part": t, "parts": tp, "global_shape": [2 * INNER, WIDTH], "blocks": [INNER, INNER]},
                               "down.weight": {"kind": "shard", "dim": 1, "part": t, "parts": tp, "global_shape": [WIDTH, INNER]},
                               "norm.weight": {"kind": "replicated"}}}

    def rank(self, rank, tp, dp, micro_batches, tensors, fault, split=False):
        """split: of another implementation, which has two projections in place of the fused one, and other names."""
        made = Rank(tensors)
        t, d = rank % tp, rank // tp
        group = {"type": "torch.ProcessGroup", "group_ranks": [d * tp + i for i in range(tp)], "group_id": "g%d" % d}
        gradient = numpy.zeros(WIDTH, numpy.float32)
        for number, x in enumerate(numpy.split(numpy.split(self.x, dp)[d], micro_batches)):
            def parts(values, rows):  # its slice of both fused parts, of every rank
                return [numpy.concatenate([half[i * rows:(i + 1) * rows] for half in numpy.split(values, 2)]) for i in range(tp)]
            ups = parts(self.up, INNER // tp)
            downs = numpy.split(self.down, tp, axis=1)
            own = (tp - 1 - t) if fault == "shards swapped" else t
            norm = self.norm * numpy.float32(1.5) if fault == "copy drifts" and t == 1 else self.norm
            scaled = x * norm
            hidden = [scaled @ up.T for up in ups]
            products = [h[:, :INNER // tp] * h[:, INNER // tp:] for h in hidden]
            summands = [p @ down.T for p, down in zip(products, downs)]
            if fault == "shards swapped":
                summands = [p @ down.T for p, down in zip(products, downs[::-1])]
            total = summands[t] if fault == "not reduced" else sum(summands)
            total = total.astype(numpy.float32)
            loss = numpy.array((total ** 2).mean(), numpy.float32)
            end = ".forward.%d" % number
            kind = ("ColumnParallelLinear", "RowParallelLinear") if tp > 1 else ("Linear", "Linear")
            modules = {"norm": "Module.norm.Norm" + end, "up": "Module.up.%s%s" % (kind[0], end), "down": "Module.down.%s%s" % (kind[1], end), "": "Module.Net" + end}
            if split:
                gate, up = numpy.split(self.up, 2)
                wrong = 1.5 if fault == "down scaled" else 1
                made.call("Module.model.first_norm.RMSNorm" + end, [x], [scaled], "Module.model.Net" + end, parameters={"weight": norm})
                made.call("Module.model.mlp.gate_proj.Linear" + end, [scaled], [scaled @ gate.T], "Module.model.mlp.MLP" + end, parameters={"weight": gate})
                made.call("Module.model.mlp.up_proj.Linear" + end, [scaled], [scaled @ up.T], "Module.model.mlp.MLP" + end, parameters={"weight": up})
                made.call("Module.model.mlp.act.Product" + end, [scaled @ gate.T, scaled @ up.T], [products[0]], "Module.model.mlp.MLP" + end)
                made.call("Module.model.mlp.down_proj.Linear" + end, [products[0]], [total * wrong], "Module.model.mlp.MLP" + end, parameters={"weight": self.down})
                made.call("Module.model.mlp.MLP" + end, [scaled], [total * wrong], "Module.model.Net" + end)
                made.call("Module.model.Net" + end, [x, x], [total * wrong], None)
                slope = (2 * total / total.size).astype(numpy.float32)
                gradient = gradient + (slope * x).sum(axis=0).astype(numpy.float32)
                continue
            made.call("Tensor.__mul__.%d.forward" % (2 * number), [x, norm], [scaled], modules["norm"])
            made.call(modules["norm"], [x], [scaled], modules[""], parameters={"weight": norm})
            made.call("Functional.linear.%d.forward" % (2 * number), [scaled, ups[t]], [hidden[t]], modules["up"])
            made.call(modules["up"], [scaled], [hidden[t]], modules[""], parameters={"weight": ups[t]})
            made.call("Tensor.__mul__.%d.forward" % (2 * number + 1), [hidden[t][:, :INNER // tp].copy(), hidden[t][:, INNER // tp:].copy()], [products[t]], modules[""])
            made.call("Functional.linear.%d.forward" % (2 * number + 1), [products[t], downs[own]], [summands[t]], modules["down"])
            if tp > 1 and fault != "not reduced":
                made.call("Distributed.all_reduce.%d.forward" % number, [summands[t], group], [total], modules["down"])
            made.call(modules["down"], [products[t]], [total], modules[""], parameters={"weight": downs[own]})
            made.call("Functional.mse_loss.%d.forward" % number, [total], [loss], modules[""])
            made.call(modules[""], [x], [loss], None)
            # The gradient of the loss, by total, and by norm.weight where all of that is linear in it.
            slope = (2 * total / total.size).astype(numpy.float32)
            made.call("Functional.mse_loss.%d.backward" % number, [numpy.array(1, numpy.float32)], [slope], None)
            gradient = gradient + (slope * x).sum(axis=0).astype(numpy.float32)
        made.gradient("Module.model.first_norm.RMSNorm" if split else "Module.norm.Norm", {"weight": gradient})
        return made


class CompareLayouts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.model = Model()

    def compare(self, npu, bench, *flags, code=0):
        out = self.folder / "out"
        ran = subprocess.run([MSPROBE, "compare", npu, bench, "-o", out, "--format", "csv", "--force", *flags], capture_output=True, text=True)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        self.said = ran.stdout + ran.stderr
        if code != 0:
            return None
        self.summary = json.loads((out / "summary.json").read_text())
        tables = sorted(out.glob("*.csv"))
        self.rows = {row["NPU Name"]: row for row in csv.DictReader(tables[-1].read_text("utf-8-sig").splitlines())} if tables else {}
        return self.summary["pairs"][0]

    def one(self, **options):
        return self.model.run(self.folder / "one", **options)

    def cut(self, **options):
        return self.model.run(self.folder / "cut", **options)

    def test_two_tensor_parallel_ranks_are_one_model(self):
        for layout in (True, False):
            with self.subTest(layout=layout):
                self.setUp()
                pair = self.compare(self.cut(tp=2, layout=layout), self.one())
                self.assertEqual(pair["verdict"], "agree")
                self.assertEqual(pair["layout"]["npu"], {"ranks": [0, 1], "tp": 2, "pp": 1, "dp": 1, "cp": 1, "ep": 1, "fsdp": 1,
                                                         "source": "recorded" if layout else "inferred"})
                self.assertEqual(pair["layout"]["bench"]["ranks"], [0])
                self.assertEqual(pair["counts"]["npu_only"], 0)
                self.assertEqual(self.rows["Module.up.Linear.forward.0.parameters.weight"]["NPU Layout"],
                                 "shard dim 0 x2 blocks 2" if layout else "shard dim 0 x2")
                self.assertEqual(self.rows["Functional.linear.1.forward.output.0"]["NPU Layout"], "partial x2")
                self.assertEqual(self.rows["Module.norm.Norm.forward.0.parameters.weight"]["NPU Layout"], "replicated x2")
                self.assertEqual(self.rows["Module.down.Linear.forward.0.output.0"]["Bench Layout"], "whole")

    def test_tensors_are_read_through_their_pieces(self):
        for layout in (True, False):
            with self.subTest(layout=layout):
                self.setUp()
                pair = self.compare(self.cut(tp=2, tensors=True, layout=layout), self.one(tensors=True))
                self.assertEqual((pair["verdict"], pair["mode"]), ("agree", "real data"))
                weight = self.rows["Module.up.Linear.forward.0.parameters.weight"]
                self.assertEqual((weight["MaxAbsErr"], weight["NPU Layout"]), ("0", "shard dim 0 x2 blocks 2"))

    def test_four_ranks_stand_against_two(self):
        self.assertEqual(self.compare(self.cut(tp=4, layout=True), self.model.run(self.folder / "two", tp=2, layout=True))["verdict"], "agree")

    def test_a_missing_reduction_is_named(self):
        for tensors in (False, True):
            with self.subTest(tensors=tensors):
                self.setUp()
                point = self.compare(self.cut(tp=2, layout=True, tensors=tensors, fault="not reduced"), self.one(tensors=tensors))["first_divergence"]
                self.assertEqual((point["kind"], point["call"], point["relation"]["kind"], point["ranks"]),
                                 ("computation", "Functional.linear.1.forward", "partial_sum", []))

    def test_copies_that_differ_are_replicas_with_their_ranks(self):
        point = self.compare(self.cut(tp=2, layout=True, fault="copy drifts"), self.one())["first_divergence"]
        self.assertEqual((point["kind"], point["ranks"]), ("replica", [1]))

    def test_equal_layouts_are_compared_rank_by_rank_and_their_copies_checked(self):
        bench = self.model.run(self.folder / "bench", tp=2, layout=True)
        pair = self.compare(self.model.run(self.folder / "same", tp=2, layout=True), bench)
        self.assertEqual((len(self.summary["pairs"]), pair["verdict"], pair["layout"]["npu"]["ranks"]), (2, "identical", [0]))
        self.assertNotIn("NPU Layout", next(iter(self.rows.values())))
        both = self.model.run(self.folder / "both", tp=2, layout=True, fault="copy drifts")
        self.compare(both, self.model.run(self.folder / "too", tp=2, layout=True, fault="copy drifts"))
        self.assertEqual([pair["first_divergence"]["kind"] for pair in self.summary["pairs"]], ["replica", "replica"])

    def test_swapped_shards_differ_where_they_are_used(self):
        point = self.compare(self.cut(tp=2, layout=True, tensors=True, fault="shards swapped"), self.one(tensors=True))["first_divergence"]
        self.assertEqual((point["kind"], point["call"]), ("parameter", "Functional.linear.1.forward"))

    def test_replicas_of_the_data_are_joined_along_the_batch(self):
        pair = self.compare(self.cut(dp=2, layout=True), self.one())
        self.assertEqual(pair["verdict"], "agree")
        self.assertEqual(pair["layout"]["npu"]["gradient_factor"], 2)
        self.assertEqual(self.rows["Functional.mse_loss.0.forward.input.0"]["NPU Layout"], "shard dim 0 x2")
        self.assertEqual(self.rows["Functional.mse_loss.0.forward.output.0"]["NPU Layout"], "partial x2")
        self.assertEqual(self.rows["Module.norm.Norm.parameters_grad.weight"]["NPU Layout"], "partial x2")

    def test_as_many_replicas_make_as_many_pairs(self):
        pair = self.compare(self.cut(tp=2, dp=2, layout=True), self.model.run(self.folder / "ddp", dp=2, layout=True))
        self.assertEqual([pair["layout"]["npu"]["ranks"] for pair in self.summary["pairs"]], [[0, 1], [2, 3]])
        self.assertEqual([pair["layout"]["bench"]["ranks"] for pair in self.summary["pairs"]], [[0], [1]])
        self.assertEqual(pair["verdict"], "agree")

    def test_micro_batches_are_joined_along_the_batch(self):
        pair = self.compare(self.cut(micro_batches=2), self.one())
        self.assertEqual((pair["verdict"], pair["counts"]["npu_only"], pair["counts"]["bench_only"]), ("agree", 0, 0))
        self.assertEqual(self.rows["Functional.linear.0.forward.output.0"]["NPU Layout"], "shard dim 0 x2")

    def test_replicas_with_several_micro_batches_each_are_joined_with_all_of_them(self):
        for tensors in (False, True):
            with self.subTest(tensors=tensors):
                self.setUp()
                pair = self.compare(self.cut(dp=2, micro_batches=2, layout=True, tensors=tensors), self.one(micro_batches=2, layout=True, tensors=tensors))
                self.assertEqual(pair["verdict"], "agree")
                row = self.rows["Functional.linear.0.forward.output.0"]
                self.assertEqual((row["NPU Layout"], row["Bench Layout"]), ("shard dim 0 x4", "shard dim 0 x2"))

    def test_another_implementation_is_paired_by_what_it_is_made_of(self):
        for tensors, tp in ((False, 1), (True, 1), (False, 2), (True, 2)):
            with self.subTest(tensors=tensors, tp=tp):
                self.setUp()
                other = self.one(tensors=tensors, layout=True, split=True)
                pair = self.compare(self.cut(tp=tp, tensors=tensors, layout=True), other)
                self.assertIn(pair["verdict"], ("agree", "identical"))
                self.assertEqual(pair["counts"]["npu_only"], 0)
                fused = self.rows["Module.model.mlp.gate_proj+up_proj.Linear.forward.0.parameters.weight"]
                self.assertEqual((fused["Bench Layout"], fused["Paired By"]), ("shard dim 0 x2", "weights"))
                self.assertIn("Module.model.mlp.down_proj.Linear.forward.0.output.0", self.rows)
                self.assertEqual(self.rows["Module.model.first_norm.RMSNorm.parameters_grad.weight"]["Paired By"], "weights")

    def test_a_fault_of_another_implementation_is_named(self):
        wrong = self.one(tensors=True, layout=True, split=True, fault="down scaled")
        point = self.compare(wrong, self.cut(tensors=True, layout=True))["first_divergence"]
        self.assertEqual((point["kind"], point["call"], point["relation"]["kind"]), ("computation", "Module.down.Linear.forward.0", "scale"))
        self.assertAlmostEqual(point["relation"]["factor"], 1.5, 4)

    def test_shares_of_a_gradient_are_as_exact_as_the_backward_pass_that_made_them(self):
        def give(folder, dtype, factor):
            for rank in (folder / "step0").iterdir():
                dump = json.loads((rank / "dump.json").read_text())
                gradient = {**described(numpy.ones((BATCH, WIDTH), numpy.float32)), "dtype": "torch." + dtype}
                dump["data"]["Module.norm.Norm.backward.0"] = {"input": [gradient], "output": [gradient]}
                (rank / "dump.json").write_text(json.dumps(dump))
                given = described((factor * numpy.arange(1, WIDTH + 1)).astype(numpy.float32))
                (rank / "reduced_gradients.json").write_text(json.dumps({**dump, "data": {"Module.norm.Norm.parameters_grad.reduced": {"weight": [given]}}}))
            return folder

        for dtype in ("bfloat16", "float32"):
            with self.subTest(dtype=dtype):
                self.setUp()
                self.compare(give(self.cut(tp=2, layout=True), dtype, numpy.array([1.003, 0.998, 1.002, 0.999, 1.001, 0.998])), give(self.one(), dtype, 1))
                self.assertEqual("Module.norm.Norm.parameters_grad.reduced.weight" in self.said, dtype == "float32", self.said)

    def test_a_user_may_say_how_a_run_is_cut(self):
        given = self.folder / "layouts.json"
        given.write_text(json.dumps({"npu": {"groups": {"tp": 2}, "parameters": {"*up.weight": {"kind": "shard", "dim": 0, "parts": 2, "blocks": [INNER, INNER]}}},
                                     "bench": {}}))
        pair = self.compare(self.cut(tp=2), self.one(), "--layout", given)
        self.assertEqual((pair["layout"]["npu"]["source"], pair["verdict"]), ("given", "agree"))
        self.assertEqual(self.rows["Module.up.Linear.forward.0.parameters.weight"]["NPU Layout"], "shard dim 0 x2 blocks 2")

    def test_none_pairs_ranks_by_number(self):
        pair = self.compare(self.cut(tp=2), self.model.run(self.folder / "four", tp=4), "--layout", "none")
        self.assertEqual(len(self.summary["pairs"]), 2)
        self.assertEqual(pair["layout"]["npu"]["tp"], 1)

    def test_what_does_not_fit_is_named(self):
        cut, one = self.cut(tp=2), self.one()
        given = self.folder / "layouts.json"
        given.write_text('{"npu": {"groups": {"tp": 4}}, "bench": {}}')
        self.compare(cut, one, "--layout", given, code=3)
        self.assertIn("multiply to 4 ranks; the dump has 2", self.said)
        (cut / "step0/rank1/layout.json").write_text('{"rank": -1}')
        self.compare(cut, one, code=3)
        self.assertIn("layout.json: rank is -1", self.said)

    def test_missing_ranks_are_named(self):
        self.compare(self.cut(tp=2, layout=True, ranks=[0]), self.one())
        self.assertIn("ran on 2 ranks, of which the dump lacks 1: 1", self.said)

    def test_checksums_of_parts_are_refused(self):
        cut, one = self.cut(tp=2), self.one()
        for file in (*cut.glob("*/*/dump.json"), *one.glob("*/*/dump.json")):
            file.write_text(file.read_text().replace('"requires_grad"', '"md5": "00000000", "requires_grad"'))
        self.compare(cut, one, code=3)
        self.assertIn("checksums of parts", self.said)


if __name__ == "__main__":
    MSPROBE = sys.argv.pop(1)
    unittest.main()
