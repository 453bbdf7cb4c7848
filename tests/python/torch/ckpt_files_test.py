"""Files as programs really write them: every figure of ckpt_compare against PyTorch's own in float64."""
import argparse
import collections
import dataclasses
import io
import json
import math
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

try:
    import numpy
except ImportError:
    numpy = None


@dataclasses.dataclass
class TrainingState:
    epoch: int = 3
    best: float = 0.25


class Tagged(torch.Tensor):
    """A subclass, which PyTorch saves with its class and its state."""


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("places", torch.arange(4))

    def forward(self, value):
        return self.norm(self.linear(value))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Block()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.scale = 0.5

    def forward(self, value):
        return self.model(value) * self.scale


def as_double(tensor):
    """Exact values as float64 (complex128 for complex ones), dequantised and dense."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def figures(first, second):
    """What the result must hold for a pair of tensors of one shape."""
    a, b = as_double(first).reshape(-1), as_double(second).reshape(-1)
    difference = (a - b).abs()
    length_a, length_b = a.abs().square().sum().sqrt().item(), b.abs().square().sum().sqrt().item()
    l2 = difference.square().sum().sqrt().item()
    if math.isinf(length_a) or math.isinf(length_b):  # squares beyond float64: scaled
        scale = max(a.abs().max().item(), b.abs().max().item())
        _, cosine, _ = figures(a / scale, b / scale)
        l2 = ((a - b) / scale).abs().square().sum().sqrt().item() * scale
    elif length_a == 0 and length_b == 0:
        cosine = 1.0
    elif length_a == 0 or length_b == 0:
        cosine = None
    else:
        cosine = ((a * b.conj()).real.sum() / length_a / length_b).item()
    return l2, cosine, difference.max().item() if difference.numel() else 0.0


class CkptFilesCase(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        torch.manual_seed(5)

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, value, **options):
        torch.save(value, self.path(name), **options)
        return self.path(name)

    def run_compare(self, first, second, *flags):
        output = self.path("result.json")
        command = [os.environ["MSPROBE"], "ckpt_compare", first, second, "-o", output, "--force", "--format", "json"]
        run = subprocess.run(command + list(flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if not os.path.exists(output):
            return run, {}, {}
        with open(output) as file:
            rows = json.load(file)
        with open(self.path("result_details.json")) as file:
            details = {row["name"]: row for row in json.load(file)["parameters"]}
        return run, rows, details

    def check(self, expected, first, second, *flags):
        """`expected`: name -> pair of tensors. Every figure of every one of them, and no further name."""
        run, rows, details = self.run_compare(first, second, *flags)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(sorted(rows), sorted(expected), run.stdout)
        for name, (a, b) in expected.items():
            self.assertEqual(rows[name]["shape"], list(a.shape), name)
            l2, cosine, largest = figures(a, b)
            self.near(rows[name]["l2"], l2, name + " l2")
            self.near(rows[name]["cos"], cosine, name + " cos", absolute=1e-9)
            self.near(details[name]["max_abs_error"], largest, name + " max abs error")
        return run, details

    def near(self, value, expected, what, absolute=0.0):
        value = float(value) if isinstance(value, str) else value
        if expected is None:
            self.assertIsNone(value, what)
        elif math.isnan(expected):
            self.assertTrue(math.isnan(value), "%s: %r" % (what, value))
        else:
            self.assertTrue(value == expected or abs(value - expected) <= max(1e-7 * abs(expected), absolute),
                            "%s: %r instead of %r" % (what, value, expected))

    def check_dicts(self, first, second, *flags, **options):
        """Two state dicts, saved and compared."""
        expected = {name: (first[name], second[name]) for name in first}
        return self.check(expected, self.save("a.pt", first, **options), self.save("b.pt", second, **options), *flags)

    def test_every_dtype_is_compared_exactly(self):
        first, second = {}, {}
        names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
                 "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]
        for name in names:
            dtype = getattr(torch, name, None)
            if dtype is None:
                continue
            base, noise = torch.randn(7, 11) * 50, torch.randn(7, 11)
            if name.startswith("complex"):
                base, noise = torch.complex(base, noise), torch.complex(noise, base)
            elif name.startswith("uint"):
                base, noise = base.abs(), noise.abs()
            first[name], second[name] = base.to(dtype), (base + noise).to(dtype)
        self.check_dicts(first, second)

    def test_digits_beyond_float32_count(self):
        first = {"f": torch.tensor([1.0 + 1e-12, 2.0], dtype=torch.float64), "i": torch.tensor([2**53, 7]),
                 "z": torch.complex(torch.ones(3), torch.zeros(3))}
        second = {"f": torch.tensor([1.0, 2.0], dtype=torch.float64), "i": torch.tensor([2**53 + 2, 7]),
                  "z": torch.complex(torch.ones(3), torch.ones(3))}
        run, details = self.check_dicts(first, second)
        self.assertTrue(run.stdout.startswith("DIFFERENT: 3 of 3"), run.stdout)
        self.assertEqual(details["i"]["different_elements"], 1)

    def test_squares_beyond_float32_and_float64_count(self):
        for scale in (1e20, 1e25, 1e30, 1e-25, 1e-30):
            first = {"w": torch.randn(100) * scale}
            self.check_dicts(first, {"w": first["w"] + torch.randn(100) * scale * 0.1})
        for scale in (1e160, 1e300):
            first = {"w": torch.randn(50, dtype=torch.float64) * scale}
            self.check_dicts(first, {"w": first["w"] * 1.25})

    def test_one_element_no_element_and_views_of_shared_storages(self):
        shared = torch.randn(6, 8)
        first = {"scalar": torch.tensor(2.5), "one": torch.tensor([3.0]), "empty": torch.zeros(0, 4), "columns": shared[:, 2:5],
                 "transposed": shared.t(), "row": shared[4], "tied": shared, "again": shared, "every second": shared[::2, ::2],
                 "expanded": torch.randn(1, 5).expand(4, 5)}
        second = {name: tensor * 1.5 + 1 for name, tensor in first.items()}
        self.check_dicts(first, second)
        self.check_dicts(first, second, _use_new_zipfile_serialization=False)

    def test_parameters_subclasses_and_ordered_dicts_are_tensors_like_others(self):
        with_state = torch.nn.Parameter(torch.randn(3))
        with_state.sharding = "columns"
        first = collections.OrderedDict(p=torch.nn.Parameter(torch.randn(2, 3)), s=with_state,
                                        t=torch.randn(4).as_subclass(Tagged))
        first._metadata = collections.OrderedDict(version=2)
        second = collections.OrderedDict((name, tensor.detach() + 1) for name, tensor in first.items())
        self.check_dicts(first, second)

    def test_quantised_tensors_are_compared_by_what_they_stand_for(self):
        values = torch.randn(4, 6)
        scales, zero_points = torch.tensor([0.1, 0.02, 0.05, 0.3]), torch.tensor([0, 3, -2, 5])
        first = {
            "tensor": torch.quantize_per_tensor(values, 0.05, 3, torch.qint8),
            "unsigned": torch.quantize_per_tensor(values, 0.05, 100, torch.quint8),
            "wide": torch.quantize_per_tensor(values, 1e-4, 0, torch.qint32),
            "channel": torch.quantize_per_channel(values, scales, zero_points, 0, torch.qint8),
            "columns": torch.quantize_per_channel(values.t().contiguous(), scales, zero_points, 1, torch.qint8),
        }
        second = {
            "tensor": torch.quantize_per_tensor(values, 0.04, -1, torch.qint8),
            "unsigned": torch.quantize_per_tensor(values, 0.04, 90, torch.quint8),
            "wide": torch.quantize_per_tensor(values, 2e-4, 7, torch.qint32),
            "channel": torch.quantize_per_channel(values, scales * 2, zero_points, 0, torch.qint8),
            "columns": torch.quantize_per_channel(values.t().contiguous(), scales, zero_points, 1, torch.qint8),
        }
        _, details = self.check_dicts(first, second)
        self.assertIn("dequantised values are compared", " ".join(details["tensor"]["notes"]))
        self.assertIn("scale 0.05, zero point 3", " ".join(details["tensor"]["notes"]))
        self.assertEqual(details["columns"]["outcome"], "identical")

    def test_sparse_tensors_are_compared_by_their_parts(self):
        dense = torch.zeros(4, 6)
        dense[1, 2], dense[3, 0], dense[3, 5] = 1.5, -2.0, 0.25
        kinds = {"coo": (dense.to_sparse(), ("indices", "values")),
                 "csr": (dense.to_sparse_csr(), ("crow_indices", "col_indices", "values"))}
        if hasattr(dense, "to_sparse_csc"):
            kinds["csc"] = (dense.to_sparse_csc(), ("ccol_indices", "row_indices", "values"))
        if hasattr(dense, "to_sparse_bsr"):
            kinds["bsr"] = (dense.to_sparse_bsr((2, 2)), ("crow_indices", "col_indices", "values"))
            kinds["bsc"] = (dense.to_sparse_bsc((2, 2)), ("ccol_indices", "row_indices", "values"))
        first, second, expected = {}, {}, {}
        for name, (tensor, parts) in kinds.items():
            try:
                torch.save(tensor, io.BytesIO())
            except RuntimeError:  # this PyTorch makes such tensors, but cannot save them
                continue
            first[name] = tensor
            second[name] = dense.mul(3).to_sparse() if name == "coo" else dense.mul(3).to_sparse_csr() if name == "csr" else tensor
            for part in parts:
                take = (lambda t, p=part: getattr(t.coalesce() if p in ("indices",) or t.layout == torch.sparse_coo else t, p)())
                expected["%s.%s" % (name, part)] = (take(first[name]), take(second[name]))
        self.check(expected, self.save("a.pt", first), self.save("b.pt", second))

    def test_torchscript_is_named_like_its_state_dict(self):
        first, second = Net(), Net()
        torch.jit.script(first).save(self.path("a.pt"))
        torch.jit.script(second).save(self.path("b.pt"))
        a, b = first.state_dict(), second.state_dict()
        expected = {name: (a[name], b[name]) for name in a}
        self.check(expected, self.path("a.pt"), self.path("b.pt"))
        # Against a plain state dict, too.
        self.check(expected, self.path("a.pt"), self.save("plain.pt", b))
        traced = torch.jit.trace(first.eval(), torch.randn(2, 5))
        traced.save(self.path("traced.pt"))
        run, _, details = self.run_compare(self.path("traced.pt"), self.path("traced.pt"), "--fail-on", "different")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("model.linear.weight", details)

    def test_weights_of_a_frozen_torchscript_module_are_its_constants(self):
        module = torch.jit.freeze(torch.jit.script(Net().eval()))
        module.save(self.path("a.pt"))
        run, rows, _ = self.run_compare(self.path("a.pt"), self.path("a.pt"), "--fail-on", "different")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertTrue(rows and all(name.startswith("CONSTANTS.c") for name in rows), rows)

    def optimizer_state(self, **settings):
        module = torch.nn.Linear(3, 2)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(0.5)
        optimizer = torch.optim.AdamW(module.parameters(), **settings)
        module(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        return {"model": {name: torch.ones(2) for name in ("w",)}, "optimizer": optimizer.state_dict(), "epoch": 3}

    def test_settings_of_the_optimizer_count(self):
        first = self.save("a.pt", self.optimizer_state(lr=0.001))
        for settings, name, difference in (({"lr": 0.5}, "lr", 0.499),
                                           ({"lr": 0.001, "betas": (0.8, 0.999)}, "betas", 0.1),
                                           ({"lr": 0.001, "weight_decay": 0.25}, "weight_decay", 0.24)):
            second = self.save("b.pt", self.optimizer_state(**settings))
            run, rows, _ = self.run_compare(first, second, "--optimizer", "--fail-on", "different")
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertIn("DIFFERENT", run.stdout)
            self.assertAlmostEqual(rows["optimizer.param_groups.0." + name]["l2"], difference, places=12)
            run, _, _ = self.run_compare(first, second, "--fail-on", "different")
            self.assertEqual(run.returncode, 0, run.stdout)
        later = self.optimizer_state(lr=0.001)
        later["epoch"] = 4
        run, rows, _ = self.run_compare(first, self.save("b.pt", later), "--optimizer", "--fail-on", "different")
        self.assertEqual((run.returncode, rows["epoch"]["l2"]), (1, 1.0), run.stdout)
        run, _, _ = self.run_compare(first, first, "--optimizer", "--fail-on", "different")
        self.assertEqual(run.returncode, 0, run.stdout)
        # The optimizer's own file.
        alone = self.save("c.pt", self.optimizer_state(lr=0.001)["optimizer"])
        other = self.save("d.pt", self.optimizer_state(lr=0.002)["optimizer"])
        run, rows, _ = self.run_compare(alone, other, "--optimizer", "--fail-on", "different")
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertAlmostEqual(rows["param_groups.0.lr"]["l2"], 0.001, places=12)

    def test_other_values_beside_the_tensors_do_not_matter(self):
        state = {"state_dict": {"w": torch.ones(3)}, "args": argparse.Namespace(lr=0.1, names=["a"]), "info": TrainingState(),
                 "history": [{"loss": 0.5}, {"loss": 0.25}], "text": "x" * 1000, "none": None, "set": {1, 2}}
        if numpy is not None:
            state["best"] = numpy.float64(0.5)
            state["rng"] = numpy.arange(5)
        run, rows, _ = self.run_compare(self.save("a.pt", state), self.save("b.pt", {"w": torch.zeros(3)}))
        self.assertEqual(list(rows), ["w"], run.stdout)
        self.assertAlmostEqual(rows["w"]["l2"], math.sqrt(3))

    def test_nested_lists_of_state_dicts_are_all_compared(self):
        first = [{"w": torch.ones(2)}, [{"v": torch.ones(3)}, {"v": torch.ones(4)}]]
        second = [{"w": torch.ones(2)}, [{"v": torch.ones(3)}, {"v": torch.zeros(4)}]]
        expected = {"0.w": (first[0]["w"], second[0]["w"]), "1.0.v": (first[1][0]["v"], second[1][0]["v"]),
                    "1.1.v": (first[1][1]["v"], second[1][1]["v"])}
        self.check(expected, self.save("a.pt", first), self.save("b.pt", second))

    def test_prefixes_of_wrappers_do_not_hide_the_model(self):
        plain = {"layers.%d.weight" % i: torch.randn(3, 3) for i in range(3)}
        expected_l2 = [math.sqrt(9.0)] * 3
        for prefix in ("module.", "_orig_mod.", "module._orig_mod.", "_fsdp_wrapped_module."):
            wrapped = {prefix + name: tensor + 1 for name, tensor in plain.items()}
            run, rows, _ = self.run_compare(self.save("a.pt", plain), self.save("b.pt", wrapped))
            self.assertEqual(len(rows), 3, prefix + run.stdout)
            for row, l2 in zip(rows.values(), expected_l2):
                self.assertAlmostEqual(row["l2"], l2, places=5)

    def test_whole_modules_are_read_without_their_classes(self):
        first, second = Net(), Net()
        a, b = first.state_dict(), second.state_dict()
        self.check({name: (a[name], b[name]) for name in a}, self.save("a.pt", first), self.save("b.pt", second))

    def test_sharded_folders_with_bin_files_are_read_beside_training_args(self):
        for side, add in (("a", 0.0), ("b", 1.0)):
            folder = self.path(side)
            os.makedirs(folder)
            torch.save({"w.0": torch.ones(2, 2)}, os.path.join(folder, "pytorch_model-00001-of-00002.bin"))
            torch.save({"w.1": torch.ones(3) + add}, os.path.join(folder, "pytorch_model-00002-of-00002.bin"))
            torch.save(argparse.Namespace(lr=0.1), os.path.join(folder, "training_args.bin"))
            with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as file:
                json.dump({"metadata": {}, "weight_map": {"w.0": "pytorch_model-00001-of-00002.bin",
                                                          "w.1": "pytorch_model-00002-of-00002.bin"}}, file)
        self.check({"w.0": (torch.ones(2, 2), torch.ones(2, 2)), "w.1": (torch.ones(3), torch.ones(3) + 1)},
                   self.path("a"), self.path("b"))

    def test_nothing_in_a_file_is_executed(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch %s" % marker,)
        marker = self.path("executed")
        run, _, _ = self.run_compare(self.save("a.pt", {"w": torch.ones(2), "x": Evil()}), self.save("b.pt", {"w": torch.ones(2)}))
        self.assertIn("suspicious global", run.stdout)
        self.assertFalse(os.path.exists(marker))


if __name__ == "__main__":
    unittest.main()
