#!/usr/bin/env python3
"""ckpt_compare of files and folders as other programs write them, against the weights that they were made from.

usage: ckpt_forms_test.py MSPROBE      (77 without PyTorch)
"""
import collections
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit(77)

MSPROBE = None
WAY_OUT = "zero_to_fp32"


def safetensors(header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def part(tensor, rank, ranks):
    flat = tensor.flatten()
    size = -(-len(flat) // ranks)
    flat = torch.cat([flat, torch.zeros(size * ranks - len(flat))])
    return flat[rank * size:(rank + 1) * size].clone()


def write_zero3(folder, weights, ranks, groups=1, frozen=(), buffers=None, tracker=True, skip_rank=None):
    """A folder as DeepSpeed's ZeRO 3 lays it out."""
    step = folder / "global_step7"
    step.mkdir(parents=True)
    if tracker:
        (folder / "latest").write_text("global_step7")
    trained = [(name, value) for name, value in weights.items() if name not in frozen]
    shapes = [collections.OrderedDict((name, value.shape) for name, value in trained[i::groups]) for i in range(groups)]
    for rank in range(ranks):
        model = {"module": collections.OrderedDict([(name, torch.empty(0)) for name in weights] + list((buffers or {}).items())), "param_shapes": shapes,
                 "buffer_names": list(buffers or {}), "ds_version": "0.16.0"}
        if frozen:
            model["frozen_param_shapes"] = {name: weights[name].shape for name in frozen}
            model["frozen_param_fragments"] = {name: part(weights[name], rank, ranks) for name in frozen}
        torch.save(model, step / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        if rank != skip_rank:
            flat = [torch.cat([part(value, rank, ranks) for _, value in trained[i::groups]]) for i in range(groups)]
            torch.save({"optimizer_state_dict": {"fp32_flat_groups": flat, "zero_stage": 3, "partition_count": ranks}},
                       step / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        torch.manual_seed(3)
        self.weights = collections.OrderedDict((name, torch.randn(shape)) for name, shape in (
            ("model.embed_tokens.weight", (10, 4)), ("model.layers.0.mlp.up_proj.weight", (7, 3)), ("model.layers.0.mlp.up_proj.bias", (5,)),
            ("model.layers.0.conv.weight", (3, 2, 5)), ("model.norm.weight", ())))
        torch.save(dict(self.weights), self.folder / "reference.pt")

    def compare(self, a, b="reference.pt", *flags, output="out.json", expect=0):
        done = subprocess.run([MSPROBE, "ckpt_compare", a, b, "-o", output, "--json", *flags], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else {}, done

    def names(self, path):
        self.compare(path, path, output="names.json")
        found = json.loads((self.folder / "names.json").read_text())
        (self.folder / "names.json").unlink()
        return set(found)


class DeepSpeed(Case):
    def test_parts_of_zero_3_are_joined(self):
        for number, (ranks, groups, frozen, buffers) in enumerate(((1, 1, (), {}), (2, 1, (), {}), (3, 2, ("model.layers.0.conv.weight",), {"steps": torch.arange(4)}),
                                                                   (4, 3, (), {"scale": torch.ones(2)}))):
            folder = f"zero{number}"
            write_zero3(self.folder / folder, self.weights, ranks, groups, frozen, buffers)
            torch.save({**self.weights, **buffers}, self.folder / "whole.pt")
            for path in (folder, folder + "/global_step7"):
                answer, _ = self.compare(path, "whole.pt", "--force", "--fail-on", "different")
                self.assertEqual(answer["verdict"]["word"], "IDENTICAL", answer["verdict"])
            self.assertEqual(self.names(folder), set(self.weights) | set(buffers))

    def test_a_part_that_differs_is_found(self):
        other = collections.OrderedDict((name, value.clone()) for name, value in self.weights.items())
        other["model.layers.0.mlp.up_proj.weight"][6, 2] += 1
        write_zero3(self.folder / "zero", other, 2)
        answer, _ = self.compare("zero", "reference.pt", "--fail-on", "different", expect=1)
        self.assertIn("1 of 5", answer["verdict"]["text"])
        self.assertIn("up_proj.weight", answer["verdict"]["text"])

    def test_the_model_of_zero_2_is_whole(self):
        step = self.folder / "zero2" / "global_step7"
        step.mkdir(parents=True)
        (self.folder / "zero2" / "latest").write_text("global_step7\n")
        torch.save({"module": self.weights, "optimizer": None, "global_steps": 7}, step / "mp_rank_00_model_states.pt")
        torch.save({"optimizer_state_dict": {"single_partition_of_fp32_groups": [torch.zeros(9)]}}, step / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
        answer, _ = self.compare("zero2")
        self.assertEqual(answer["verdict"]["word"], "IDENTICAL")
        self.assertEqual(self.names("zero2"), set(self.weights))

    def test_what_cannot_be_joined_says_the_way_out(self):
        write_zero3(self.folder / "missing", self.weights, 3, skip_rank=1)
        write_zero3(self.folder / "model_parallel", self.weights, 1)
        step = self.folder / "model_parallel" / "global_step7"
        (step / "zero_pp_rank_0_mp_rank_01_model_states.pt").write_bytes(b"")
        write_zero3(self.folder / "short", {**self.weights}, 2)
        for rank in range(2):
            path = self.folder / "short" / "global_step7" / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
            state = torch.load(path)
            flat = state["optimizer_state_dict"]["fp32_flat_groups"]
            flat[0] = flat[0][:-1].clone()
            torch.save(state, path)
        for folder in ("missing", "model_parallel", "short"):
            _, done = self.compare(folder, expect=3)
            self.assertIn("DeepSpeed", done.stderr)
            self.assertIn(WAY_OUT, done.stderr)
        (self.folder / "gone").mkdir()
        (self.folder / "gone" / "latest").write_text("global_step9")
        _, done = self.compare("gone", expect=3)
        self.assertIn("latest", done.stderr)


class TorchScript(Case):
    def test_parameters_and_buffers_are_those_of_state_dict(self):
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))
                self.register_buffer("running", torch.zeros(2))
                self.attribute = torch.full((3,), 7.0)
                self.several = [torch.ones(1), torch.ones(2)]

            def forward(self, x):
                return x * self.weight + self.running + self.attribute.sum() + self.several[0]

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(2, 2)
                self.inner = Inner()
                self.second = Inner()
                self.norm = torch.nn.BatchNorm1d(2)
                self.state = torch.zeros(0)

            def forward(self, x):
                return self.second(self.inner(self.norm(self.linear(x)))) + torch.tensor([1.5, 2.5])

        for number, module in enumerate((Outer(), torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()), Inner())):
            path = self.folder / f"m{number}.pt"
            torch.jit.save(torch.jit.script(module.eval()), str(path))
            self.assertEqual(self.names(path.name), set(module.state_dict()))
        frozen = torch.jit.freeze(torch.jit.script(Outer().eval()))
        torch.jit.save(frozen, str(self.folder / "frozen.pt"))
        answer, _ = self.compare("frozen.pt", "frozen.pt")
        self.assertTrue(any("frozen" in warning for warning in answer["warnings"]), answer["warnings"])


class Safetensors(Case):
    def test_bytes_of_elements_without_values_are_compared(self):
        for dtype, shape in (("F8_E8M0", [32]), ("F4", [4, 16]), ("F6_E2M3", [2, 16]), ("F8_E4M3FNUZ", [32])):
            size = 24 if dtype.startswith("F6") else 32
            entry = {"w": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
            for name, first in (("a", 1), ("b", 1), ("c", 2)):
                (self.folder / f"{name}.safetensors").write_bytes(safetensors({"__metadata__": None, **entry}, bytes([first, *range(1, size)])))
            answer, _ = self.compare("a.safetensors", "b.safetensors", "--force", "--fail-on", "different")
            self.assertEqual(answer["verdict"]["word"], "IDENTICAL", dtype)
            answer, _ = self.compare("a.safetensors", "c.safetensors", "--force", "--fail-on", "different", expect=1)
            self.assertEqual(answer["verdict"]["word"], "DIFFERENT", dtype)
        torch.save({"w": torch.zeros(24, dtype=torch.uint8)}, self.folder / "bytes.pt")
        (self.folder / "d.safetensors").write_bytes(safetensors({"w": {"dtype": "F4", "shape": [48], "data_offsets": [0, 24]}}, bytes(24)))
        answer, _ = self.compare("d.safetensors", "bytes.pt", "--force", expect=3)
        self.assertNotEqual(answer["verdict"]["word"], "IDENTICAL")

    def test_files_of_other_formats_are_named(self):
        for name, content, word in (("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5"),
                                    ("a.onnx", b"\x08\x08\x12\x07pytorch\x1a\x051.13.", "ONNX"), ("b.onnx", b"\x08\x0a:\x10graph", "ONNX"),
                                    ("a.msgpack", b"\x81\xa6params\x82\xa5dense", "MessagePack"), ("b.msgpack", b"\xde\x00\x11\xa3key\x01", "MessagePack")):
            (self.folder / name).write_bytes(content)
            _, done = self.compare(name, expect=3)
            self.assertIn(word, done.stderr)
            self.assertIn("hint", done.stderr)


class Names(Case):
    def test_equal_elements_propose_a_mapping(self):
        renamed = {f"block.{i}": value for i, value in enumerate(self.weights.values())}
        renamed["block.1"] = renamed["block.1"].t().contiguous()
        torch.save(renamed, self.folder / "ours.pt")
        answer, _ = self.compare("ours.pt")
        self.assertEqual(answer["verdict"]["word"], "NOTHING COMPARED")
        self.assertFalse((self.folder / "out.json").exists())
        self.assertTrue(any("--mapping" in step and "--suggest-mapping" in step for step in answer["next"]), answer["next"])
        self.compare("ours.pt", "reference.pt", "--suggest-mapping", "map.yaml")
        text = (self.folder / "map.yaml").read_text()
        self.assertIn('{from: "block.1", to: "model.layers.0.mlp.up_proj.weight", transpose: true, side: first}', text)
        self.compare("ours.pt", "reference.pt", "--suggest-mapping", "map.yaml", expect=2)
        answer, _ = self.compare("ours.pt", "reference.pt", "--mapping", "map.yaml", "--fail-on", "different")
        self.assertEqual(answer["verdict"]["word"], "IDENTICAL", answer)

    def test_exchanged_parameters_are_named_and_mapped_back(self):
        w1, w2, w3 = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)
        torch.save({"a.w1": w1, "a.w2": w2, "a.w3": w3, "a.same": torch.ones(3)}, self.folder / "good.pt")
        torch.save({"a.w1": w2, "a.w2": w3, "a.w3": w1, "a.same": torch.ones(3)}, self.folder / "swapped.pt")
        answer, _ = self.compare("swapped.pt", "good.pt", "--suggest-mapping", "map.yaml")
        self.assertIn("equals a.w2 of the reference", json.dumps(answer["sections"]))
        answer, _ = self.compare("swapped.pt", "good.pt", "--mapping", "map.yaml", "--force")
        self.assertEqual(answer["verdict"]["word"], "IDENTICAL", answer)

    def test_a_transposed_parameter_is_named_and_mapped_back(self):
        weight = torch.randn(5, 5)
        torch.save({"p": weight, "q": torch.ones(2, 3)}, self.folder / "good.pt")
        torch.save({"p": weight.t().contiguous(), "q": torch.ones(2, 3)}, self.folder / "turned.pt")
        answer, _ = self.compare("turned.pt", "good.pt", "--suggest-mapping", "turned.yaml")
        self.assertIn("equals p of the reference transposed", json.dumps(answer["sections"]))
        answer, _ = self.compare("turned.pt", "good.pt", "--mapping", "turned.yaml", "--force")
        self.assertEqual(answer["verdict"]["word"], "IDENTICAL", answer)

    def test_without_equal_elements_the_flag_is_named(self):
        torch.save({"x": torch.ones(2)}, self.folder / "x.pt")
        answer, _ = self.compare("x.pt", "reference.pt", "--suggest-mapping", "none.yaml")
        self.assertFalse((self.folder / "none.yaml").exists())
        self.assertTrue(any("--mapping" in step for step in answer["next"]), answer["next"])


if __name__ == "__main__":
    MSPROBE = sys.argv.pop(1)
    unittest.main()
