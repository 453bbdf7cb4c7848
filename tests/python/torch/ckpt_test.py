"""Checkpoints that PyTorch wrote: the same model compares as identical, however it is stored."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import checkpoint_makers as makers

GROUPS = {"group_query_attention": True, "num_query_groups": makers.Sizes.groups, "swiglu": True}

# Runs in a process of its own: two ranks, each with half the rows of every parameter.
SHARDED_WRITER = """
import os, socket, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

def worker(rank, port, source, target):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    os.environ["USE_LIBUV"] = "0"  # not every build has it
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    weights = torch.load(source)
    dcp.save({"model": {name: distribute_tensor(tensor, mesh, [Shard(0)])
                        for name, tensor in weights.items()}}, checkpoint_id=target)
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(worker, (port, sys.argv[1], sys.argv[2]), nprocs=2)
"""


class Outcome:
    def __init__(self, code, output, rows, unmatched):
        self.code = code
        self.output = output
        self.rows = rows
        self.unmatched = unmatched


class CkptCase(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        torch.manual_seed(11)
        self.llama = makers.TinyLlama().weights()

    def path(self, name):
        return os.path.join(self.folder, name)

    def megatron(self, name, weights=None, **options):
        options = dict(GROUPS, **options)
        weights = makers.llama_to_megatron(weights if weights is not None else self.llama)
        return makers.save_megatron(self.path(name), weights, **options)

    def hugging_face(self, name, weights=None, **options):
        return makers.save_hugging_face(
            self.path(name), weights if weights is not None else self.llama, **options)

    def compare(self, first, second, *flags):
        result, names = self.path("result.json"), self.path("unmatched.json")
        command = [os.environ["MSPROBE"], "ckpt_compare", first, second, "-o", result, "--force",
                   "--unmatched", names, "--fail-on", "different"]
        run = subprocess.run(command + list(flags), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, universal_newlines=True)
        self.assertIn(run.returncode, (0, 1), run.stdout)
        self.assertTrue(os.path.exists(result), run.stdout)
        with open(result) as file:
            rows = json.load(file)
        with open(names) as file:
            unmatched = json.load(file)
        return Outcome(run.returncode, run.stdout, rows, unmatched)

    def assert_identical(self, first, second, *flags):
        outcome = self.compare(first, second, *flags)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertTrue(outcome.rows)
        self.assertEqual([name for name, row in outcome.rows.items() if row["l2"] != 0.0], [])
        return outcome

    def assert_only_differs(self, outcome, *names):
        self.assertEqual(outcome.code, 1, outcome.output)
        differing = [name for name, row in outcome.rows.items() if row["l2"] != 0.0]
        self.assertEqual(differing, list(names), outcome.output)
        for name in names:
            self.assertIn(name, outcome.output)


class MegatronAndHuggingFace(CkptCase):
    def test_the_same_model_is_identical_both_ways(self):
        megatron, hugging_face = self.megatron("megatron"), self.hugging_face("hf")
        rows = self.assert_identical(megatron, hugging_face).rows
        self.assertEqual(len(rows), 6 * makers.Sizes.layers + 3)
        self.assertEqual(rows["decoder.layers.3.self_attention.linear_qkv.weight"]["shape"],
                         [32, 16])
        rows = self.assert_identical(hugging_face, megatron).rows
        self.assertEqual(list(rows), list(self.llama))

    def test_one_changed_weight_is_named(self):
        megatron = self.megatron("megatron")
        self.llama["model.layers.2.self_attn.k_proj.weight"][5, 3] += 0.25
        hugging_face = self.hugging_face("hf")
        self.assert_only_differs(self.compare(megatron, hugging_face),
                                 "decoder.layers.2.self_attention.linear_qkv.weight")
        outcome = self.compare(hugging_face, megatron)
        self.assert_only_differs(outcome, "model.layers.2.self_attn.k_proj.weight")
        self.assertAlmostEqual(outcome.rows["model.layers.2.self_attn.k_proj.weight"]["l2"], 0.25,
                               places=5)

    def test_exchanged_gate_and_up_are_no_match(self):
        megatron = self.megatron("megatron")
        names = ["model.layers.0.mlp.%s_proj.weight" % kind for kind in ("gate", "up")]
        self.llama[names[0]], self.llama[names[1]] = self.llama[names[1]], self.llama[names[0]]
        outcome = self.compare(self.hugging_face("hf"), megatron)
        self.assert_only_differs(outcome, *names)

    def test_every_split_of_the_ranks_is_the_same_model(self):
        hugging_face = self.hugging_face("hf")
        for tensor_ranks, stages in ((1, 1), (1, 4), (2, 1)):
            name = "tp%d_pp%d" % (tensor_ranks, stages)
            self.assert_identical(
                self.megatron(name, tensor_ranks=tensor_ranks, stages=stages), hugging_face)

    def test_tied_embeddings_need_no_output_layer(self):
        tied = makers.TinyLlama(tied=True).weights()
        copied = dict(tied)
        copied["lm_head.weight"] = tied["model.embed_tokens.weight"].clone()
        outcome = self.assert_identical(self.megatron("copied", copied),
                                        self.hugging_face("tied", tied))
        self.assertIn("output_layer.weight", outcome.rows)
        self.assert_identical(self.megatron("tied_megatron", tied),
                              self.hugging_face("copied_hf", copied))
        copied["lm_head.weight"][1, 1] += 1
        self.assert_only_differs(
            self.compare(self.megatron("untied", copied), self.path("tied")),
            "output_layer.weight")

    def test_rows_of_padding_are_left_out(self):
        padded = dict(self.llama)
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            padded[name] = torch.cat([self.llama[name], torch.randn(8, makers.Sizes.hidden)])
        padded_megatron = self.megatron("padded", padded)
        hugging_face = self.hugging_face("hf")
        rows = self.assert_identical(padded_megatron, hugging_face).rows
        self.assertEqual(rows["output_layer.weight"]["shape"], [40, 16])
        # Two paddings of one size, filled differently: only the user can tell.
        padded["lm_head.weight"] = padded["lm_head.weight"].clone()
        padded["lm_head.weight"][40:] = 0
        other = self.hugging_face("other", padded, config={})
        flags = ("--num-attention-heads", "4", "--num-query-groups", "2")
        self.assert_only_differs(self.compare(padded_megatron, other, *flags),
                                 "output_layer.weight")
        self.assert_identical(padded_megatron, other, "--vocab-size", "40", *flags)

    def test_bfloat16_agrees_with_float32_within_its_rounding(self):
        narrow = {name: tensor.to(torch.bfloat16) for name, tensor in self.llama.items()}
        megatron, hugging_face = self.megatron("megatron"), self.hugging_face("hf", narrow)
        outcome = self.compare(megatron, hugging_face)
        self.assertEqual(outcome.code, 0, outcome.output)

    def test_what_bfloat16_does_not_round_agrees_within_a_tolerance(self):
        narrow = {name: (tensor * 1.02).to(torch.bfloat16) for name, tensor in self.llama.items()}
        megatron, hugging_face = self.megatron("megatron"), self.hugging_face("hf", narrow)
        self.assertEqual(self.compare(megatron, hugging_face).code, 1)
        outcome = self.compare(megatron, hugging_face, "--rtol", "0.03")
        self.assertEqual(outcome.code, 0, outcome.output)

    def test_missing_heads_are_asked_for(self):
        weights = makers.llama_to_megatron(self.llama)
        whole = {name: torch.cat(tensor) if isinstance(tensor, tuple) else tensor
                 for name, tensor in weights.items()}
        torch.save(whole, self.path("whole.pt"))
        torch.save(self.llama, self.path("llama.pt"))
        outcome = self.compare(self.path("whole.pt"), self.path("llama.pt"))
        self.assertIn("--num-attention-heads", json.dumps(outcome.unmatched))
        self.assert_identical(self.path("whole.pt"), self.path("llama.pt"),
                              "--num-attention-heads", "4", "--num-query-groups", "2")

    def test_a_gpt_with_biases_is_the_gpt_2_of_hugging_face(self):
        weights = makers.tiny_gpt()
        megatron = makers.save_megatron(self.path("megatron"), weights)
        other = makers.megatron_to_gpt2(weights)
        config = {"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 16, "vocab_size": 40}
        hugging_face = self.hugging_face("gpt2", other, config=config)
        outcome = self.assert_identical(megatron, hugging_face)
        self.assertEqual(len(outcome.rows), len(weights))
        self.assert_identical(hugging_face, megatron)
        other["transformer.h.1.attn.c_attn.bias"][17] += 0.5
        changed = self.hugging_face("changed", other, config=config)
        self.assert_only_differs(self.compare(megatron, changed),
                                 "decoder.layers.1.self_attention.linear_qkv.bias")

    def test_what_has_no_counterpart_is_listed_with_the_reason(self):
        megatron = self.megatron("megatron")
        del self.llama["model.layers.1.mlp.up_proj.weight"]
        self.llama["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
        outcome = self.compare(megatron, self.hugging_face("hf"))
        self.assertEqual(outcome.code, 1, outcome.output)
        missing = outcome.unmatched["only_in_1"]
        self.assertEqual([entry["name"] for entry in missing],
                         ["decoder.layers.1.mlp.linear_fc1.weight"])
        self.assertIn("layers.1.mlp.up_proj.weight", missing[0]["reason"])
        self.assertEqual([entry["name"] for entry in outcome.unmatched["only_in_2"]],
                         ["model.layers.1.mlp.gate_proj.weight"])
        self.assertEqual([entry["name"] for entry in outcome.unmatched["left_out_2"]],
                         ["model.layers.0.self_attn.rotary_emb.inv_freq"])

    def test_rules_of_the_user_join_and_rename(self):
        other = {}
        for name, tensor in self.llama.items():
            if ".mlp.gate_proj." in name:
                up = self.llama[name.replace("gate_proj", "up_proj")]
                other[name.replace("model.", "policy.").replace("gate_proj", "both")] = torch.cat(
                    [tensor, up])
            elif ".mlp.up_proj." not in name:
                other[name.replace("model.", "policy.")] = tensor
        torch.save(other, self.path("other.pt"))
        with open(self.path("rules.yaml"), "w") as file:
            file.write('- {from: "policy.{path*}", to: "model.{path*}"}\n'
                       '- from: "model.layers.{n}.mlp.both.{p}"\n'
                       '  to: ["model.layers.{n}.mlp.gate_proj.{p}",'
                       ' "model.layers.{n}.mlp.up_proj.{p}"]\n')
        flags = ("--mapping", self.path("rules.yaml"))
        self.assert_identical(self.path("other.pt"), self.hugging_face("hf"), *flags)
        self.assert_identical(self.megatron("megatron"), self.path("other.pt"), *flags)


class StateDicts(CkptCase):
    def test_wrappers_of_training_are_seen_through(self):
        torch.save(self.llama, self.path("plain.pt"))
        wrapped = {"module._orig_mod." + name: tensor for name, tensor in self.llama.items()}
        torch.save({"state_dict": wrapped}, self.path("wrapped.pt"))
        self.assert_identical(self.path("plain.pt"), self.path("wrapped.pt"))

    def test_distributed_checkpoints_equal_their_state_dict(self):
        dcp = self.distributed_checkpoint()
        torch.save(self.llama, self.path("plain.pt"))
        dcp.save({"model": self.llama, "step": torch.tensor(5)}, checkpoint_id=self.path("dcp"))
        outcome = self.assert_identical(self.path("dcp"), self.path("plain.pt"))
        self.assertEqual(len(outcome.rows), len(self.llama))
        self.assert_identical(self.megatron("megatron"), self.path("dcp"),
                              "--num-query-groups", "2")

    def test_shards_of_two_ranks_make_the_whole(self):
        self.distributed_checkpoint()
        torch.save(self.llama, self.path("plain.pt"))
        with open(self.path("writer.py"), "w") as file:
            file.write(SHARDED_WRITER)
        run = subprocess.run([sys.executable, self.path("writer.py"), self.path("plain.pt"),
                              self.path("dcp")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             universal_newlines=True)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertGreater(len([name for name in os.listdir(self.path("dcp"))
                                if name.endswith(".distcp")]), 1)
        self.assert_identical(self.path("dcp"), self.path("plain.pt"))
        self.llama["model.layers.3.mlp.down_proj.weight"][15, 0] += 1
        torch.save(self.llama, self.path("changed.pt"))
        self.assert_only_differs(self.compare(self.path("dcp"), self.path("changed.pt")),
                                 "model.layers.3.mlp.down_proj.weight")

    def distributed_checkpoint(self):
        try:
            import torch.distributed.checkpoint as dcp
            from torch.distributed.tensor import distribute_tensor  # noqa: F401
            dcp.save
        except (ImportError, AttributeError):
            self.skipTest("this PyTorch has no torch.distributed.checkpoint.save")
        return dcp


if __name__ == "__main__":
    unittest.main()
