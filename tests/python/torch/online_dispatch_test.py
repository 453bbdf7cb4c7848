"""online_dispatch: which operators it finds, what it writes, and that the training goes its way bit by bit."""
import csv
import glob
import os
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase

PROLOGUE = """
import glob, os, sys
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.set_num_threads(1)
torch.manual_seed(7)
from msprobe.pytorch import PtdbgDispatch
os.makedirs("dump", exist_ok=True)

# An operator whose every call is off by a factor: what a wrong kernel of a device is.
class Wrong(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, name, factor=1.01):
        super().__init__()
        self.name, self.factor = name, factor
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function.__name__.split(".")[0] == self.name:
            for item in (result if isinstance(result, tuple) else (result,)):
                if isinstance(item, torch.Tensor) and item.is_floating_point():
                    item.mul_(self.factor)
        return result

# Counts what PyTorch runs, whoever asks for it.
class Runs(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.of = {}
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        self.of[name] = self.of.get(name, 0) + 1
        return function(*args, **(kwargs or {}))

# What the judge asks PyTorch to compute again.
def count_goldens():
    from msprobe.pytorch.online_dispatch.calls import Call
    seen, golden = [], Call.golden
    def counted(call, results):
        seen.append(call.operator.name)
        return golden(call, results)
    Call.golden = counted
    return seen
"""

# In-place calls, views, out=, random numbers, running statistics, several outputs.
TRAINING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.layer_norm = nn.LayerNorm(64)
        self.linear = nn.Linear(64, 8)

    def forward(self, x):
        x = F.relu_(self.norm(self.convolution(x)))
        x = F.dropout(x, 0.5, self.training).flatten(1)
        x = self.linear(self.layer_norm(x[:, :64]))
        y = x.view(-1, 4).softmax(-1) * x.reshape(-1, 4)
        largest, places = y.topk(2)
        buffer = torch.empty(y.shape)
        torch.mul(y.detach(), 2, out=buffer)
        buffer[0].mul_(1.5).clamp_(min=0)
        return (y + buffer).sum() + largest.sum() + y.masked_fill(y > 1, 0).sum() + torch.rand(1).sum()

def train(steps, block=None):
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        inputs = torch.rand(2, 1, 4, 4)
        if block is None:
            loss = net(inputs)
            loss.backward()
        else:
            with block: loss = net(inputs)
            with block: loss.backward()
        seen += [loss.detach().clone()] + [p.grad.clone() for p in net.parameters()]
        optimizer.step()
    return seen + [v.clone() for v in net.state_dict().values()] + [torch.get_rng_state()]
"""


class Case(ForkedCase):
    def run_block(self, code, ends_well=True):
        return self.run_code(code, prologue=PROLOGUE, ends_well=ends_well)

    def table(self, dump, kind="details"):
        (path,) = glob.glob(dump.path("msprobe_*", "accuracy_checking_%s_*.csv" % kind))
        with open(path, "rb") as file:
            text = file.read()
        self.assertTrue(text.startswith(b"\xef\xbb\xbf") and text.endswith(b"\r\n"))
        return list(csv.DictReader(text.decode("utf-8-sig").splitlines()))

    def files(self, dump, side):
        return sorted(os.path.basename(path) for path in glob.glob(dump.path("msprobe_*", side, "*.npy")))


class Harmless(Case):
    def test_a_training_goes_its_way_bit_by_bit_in_every_mode(self):
        self.run_block(TRAINING + """
plain = train(3)
for mode, workers in (("auto", 0), ("all", 0), ("OFF", 1)):
    block = PtdbgDispatch(dump_mode=mode, dump_path="dump", process_num=workers, tag=mode)
    seen = train(3, block)
    assert len(seen) == len(plain)
    for a, b in zip(plain, seen):
        assert a.dtype == b.dtype and torch.equal(a, b), mode
    assert block.checked > 100 and block.passed, (mode, block.checked, block.failed)
    kinds = " ".join(name for name in os.listdir(block.folder))
""")

    def test_an_error_of_the_operator_itself_is_the_scripts(self):
        dump = self.run_block("""
with PtdbgDispatch(dump_path="dump"):
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        print("told:", error)
    print("goes on", torch.mm(torch.ones(2, 2), torch.ones(2, 2)).sum().item())
""")
        self.assertIn("told:", dump.output)
        self.assertIn("goes on 8.0", dump.output)

    def test_a_folder_that_is_gone_does_not_end_the_training(self):
        dump = self.run_block("""
import shutil
block = PtdbgDispatch(dump_mode="all", dump_path="dump")
shutil.rmtree(block.folder)
with block:
    print("value", torch.mm(torch.ones(2, 2), torch.ones(2, 2)).sum().item())
""")
        self.assertIn("value 8.0", dump.output)
        self.assertIn("not checked: 2 calls (the check failed)", dump.output)


class Tables(Case):
    def test_rows_have_headers_numbers_and_limits(self):
        dump = self.run_block("""
with PtdbgDispatch(dump_path="dump", tag="first"):
    a = torch.full((2, 2), 2.0)
    torch.mm(a, a); torch.mm(a, a)
    torch.topk(torch.arange(6.0), 2)
    torch.mm(a.bfloat16(), a.bfloat16())
""")
        self.assertEqual(len(glob.glob(dump.path("msprobe_first_rank0_*"))), 1)
        rows = {row["Npu Name"]: row for row in self.table(dump)}
        first = rows["mm_1_output.forward.output.0"]
        self.assertEqual((first["Bench Dtype"], first["NPU Dtype"], first["Shape"], first["error_balance"], first["max_abs_idx"], first["eb_thd"],
                          first["Status"]),
                         ("torch.float64", "torch.float32", "(4,)", "0.00000000000000", "0", "0.00006103515625", "True"))
        self.assertIn("mm_2_output.forward.output.0", rows)
        half = rows["mm_3_output.forward.output.0"]
        self.assertEqual((half["Bench Dtype"], half["NPU Dtype"], half["error_thd"]), ("torch.float32", "torch.bfloat16", "0.00390625000000"))
        self.assertEqual(rows["topk_1_output.forward.output.1"]["Status"], "True")
        results = self.table(dump, "result")
        self.assertEqual(list(results[0].items()), [("API Name", "mm_1_output"), ("Forward Test Success", "True"), ("Backward Test Success", "Nan")])

    def test_a_wrong_operator_is_found_named_and_the_only_one_that_is_dumped(self):
        for workers in (0, 1):
            with self.subTest(workers):
                dump = self.run_block("""
block = PtdbgDispatch(dump_mode="auto", dump_path="dump", process_num=%d)
with Wrong("mm"), block:
    a = torch.full((2, 2), 2.0)
    assert torch.mm(a, a)[0, 0].item() > 8.05
    (a * 2).softmax(-1)
assert block.failed == {"mm": 1} and not block.passed, block.failed
""" % workers)
                self.assertIn("1 do not agree with the CPU", dump.output)
                self.assertIn("mm: 1 calls, largest relative error 0.01", dump.output)
                self.assertEqual(self.files(dump, "npu"), ["mm_1_input.0.npy", "mm_1_input.1.npy", "mm_1_output.npy"])
                self.assertEqual(self.files(dump, "cpu"), ["mm_1_output.npy"])

    def test_operators_of_several_outputs_are_judged_output_by_output(self):
        dump = self.run_block("""
block = PtdbgDispatch(dump_path="dump")
with Wrong("native_layer_norm"), block:
    F.layer_norm(torch.arange(8.0).view(2, 4) * 3, (4,))
assert block.failed == {"native_layer_norm": 1}, block.failed
""")
        names = [row["Npu Name"] for row in self.table(dump)]
        self.assertIn("native_layer_norm_1_output.forward.output.2", names)

    def test_arguments_are_dumped_as_they_were_before_an_in_place_call(self):
        dump = self.run_block("""
import numpy
block = PtdbgDispatch(dump_mode="list", api_list=["mul_", "no_such_operator"], dump_path="dump")
with block:
    a = torch.full((3,), 2.0)
    a.mul_(5)
    torch.sum(a)
assert a.tolist() == [10, 10, 10]
npu, cpu = (os.path.join(block.folder, side) for side in ("npu", "cpu"))
assert numpy.load(npu + "/mul__1_input.0.npy").tolist() == [2, 2, 2]
assert numpy.load(npu + "/mul__1_input.1.npy") == 5
assert numpy.load(npu + "/mul__1_output.npy").tolist() == [10, 10, 10]
assert numpy.load(cpu + "/mul__1_output.npy").dtype == numpy.float64
assert len(os.listdir(npu)) == 3, os.listdir(npu)
assert block.checked == 2
""")
        self.assertIn("api_list names no_such_operator", dump.output)

    def test_what_is_random_or_undefined_runs_untouched(self):
        self.run_block("""
block = PtdbgDispatch(dump_path="dump", black_list=["mm"])
torch.manual_seed(5); expected = torch.rand(3), torch.nn.functional.dropout(torch.ones(400)), torch.randn(3), torch.rand(1)
torch.manual_seed(5)
with block:
    got = torch.rand(3), torch.nn.functional.dropout(torch.ones(400)), torch.randn(3), torch.rand(1)
    torch.empty_like(got[0]); torch.mm(torch.ones(2, 2), torch.ones(2, 2))
assert all(torch.equal(a, b) for a, b in zip(expected, got))
assert not block.failed, block.failed
details = open(glob.glob(block.folder + "/*details*")[0]).read()
assert "empty" not in details and "rand" not in details and "mm_" not in details
""")

    def test_two_blocks_of_one_second_have_folders_of_their_own(self):
        dump = self.run_block("""
for _ in range(2):
    with PtdbgDispatch(dump_path="dump"):
        torch.ones(3).exp()
""")
        self.assertEqual(len(os.listdir(dump.path())), 2)


class WithoutASecondRun(Case):
    def test_a_known_operator_is_judged_without_another_run_in_pytorch(self):
        for workers in (0, 1):
            with self.subTest(workers):
                dump = self.run_block("""
again = count_goldens()
block = PtdbgDispatch(dump_mode="all", dump_path="dump", process_num=%d)
a, b = torch.rand(3, 4), torch.rand(5, 4)
with Runs() as runs, block:
    x = torch.mm(a, b.t()).softmax(1)[:, ::2]
    x = torch.cat([x, x.mul_(2)], 1)
    y = F.conv2d(torch.rand(1, 2, 5, 5), torch.rand(4, 2, 3, 3), torch.rand(4), padding=1)
    z = F.embedding(torch.tensor([[1, 0]]), a), (a > 0.5), a.sum(1), a.half().float().mean(0), torch.addmm(a[0], a, torch.rand(4, 4))
assert again == [], again
assert runs.of["mm"] == 1 and runs.of["_softmax"] == 1 and runs.of["mul_"] == 1 and runs.of["convolution"] == 1, runs.of
assert block.passed and block.checked == block.recomputed == 10, (block.checked, block.recomputed, block.failed)
""" % workers)
                self.assertIn("10 of them were computed without a second run in PyTorch", dump.output)
                self.assertIn("mul__1_input.0.npy", self.files(dump, "npu"))
                rows = {row["Npu Name"]: row for row in self.table(dump)}
                row = rows["mm_1_output.forward.output.0"]
                self.assertEqual((row["Bench Dtype"], row["NPU Dtype"], row["Shape"], row["eb_thd"], row["Status"], row["Message"]),
                                 ("torch.float64", "torch.float32", "(15,)", "0.00006103515625", "True", ""))
                self.assertEqual(rows["gt_1_output.forward.output.0"]["Bench Dtype"], "torch.bool")
                self.assertEqual(rows["sum_1_output.forward.output.0"]["Bench Dtype"], "torch.float64")
                self.assertLess(0, float(rows["convolution_1_output.forward.output.0"]["max_rel_diff"]))

    def test_the_result_is_that_of_pytorch_in_higher_precision(self):
        self.run_block("""
import numpy
a = torch.rand(3, 4)
with PtdbgDispatch(dump_mode="all", dump_path="dump") as block:
    torch.mm(a, a.t()); a.bfloat16().sigmoid(); a.neg().t().abs()
assert block.recomputed == block.checked == 4, (block.recomputed, block.checked)
cpu = {name: numpy.load(os.path.join(block.folder, "cpu", name)) for name in os.listdir(os.path.join(block.folder, "cpu"))}
assert numpy.allclose(cpu["mm_1_output.npy"], a.double() @ a.double().t(), rtol=1e-14) and cpu["mm_1_output.npy"].dtype == numpy.float64
assert numpy.allclose(cpu["sigmoid_1_output.npy"], a.bfloat16().double().sigmoid(), rtol=1e-7) and cpu["sigmoid_1_output.npy"].dtype == numpy.float32
assert (cpu["abs_1_output.npy"] == a.t().double().numpy()).all()
""")

    def test_what_the_library_does_not_know_runs_again_in_pytorch(self):
        self.run_block("""
again = count_goldens()
with PtdbgDispatch(dump_path="dump") as block:
    torch.linalg.inv_ex(torch.eye(3) * 2)
    F.layer_norm(torch.rand(2, 8), (8,))
    torch.complex(torch.ones(3), torch.ones(3)).exp()
    torch.rand(3).remainder(0.5)
    F.dropout(torch.ones(400))
assert {"native_layer_norm", "exp", "remainder"} <= set(again), again
assert block.passed and block.recomputed + len(again) == block.checked, (block.recomputed, block.checked, block.failed)
""")

    def test_arguments_may_be_infinite_and_results_that_are_run_again(self):
        self.run_block("""
again = count_goldens()
x = torch.tensor([1.0, -2.0, 3.0])
mask = x > 0
with PtdbgDispatch(dump_path="dump") as block:
    x.clamp(max=float("inf")); x.clamp(-float("inf"), 2.0); x.lt(float("inf")); x.gt(float("nan"))
    assert block.recomputed == block.checked == 4, (block.recomputed, block.checked)
    x.masked_fill(mask, -float("inf")); x.add(x, alpha=float("inf"))
assert again == ["masked_fill", "add"] and not block.failed, (again, block.failed)
""")

    def test_a_fault_is_called_whoever_computes_the_reference(self):
        for workers in (0, 1):
            with self.subTest(workers):
                dump = self.run_block("""
again = count_goldens()
block = PtdbgDispatch(dump_path="dump", process_num=%d)
with Wrong("addmm", 1.001), Wrong("gelu", 1.001), Wrong("native_layer_norm", 1.001), block:
    x = F.gelu(F.linear(torch.arange(32.0).view(4, 8), torch.full((8, 8), 0.5), torch.ones(8)))
    F.layer_norm(x, (8,))
    x * 2
assert block.failed == {"addmm": 1, "gelu": 1, "native_layer_norm": 1}, block.failed
assert again == ["addmm", "gelu", "native_layer_norm"] and block.recomputed == 1, again
""" % workers)
                failed = [row["Npu Name"] for row in self.table(dump) if row["Status"] == "False"]
                self.assertIn("addmm_1_output.forward.output.0", failed)
                self.assertIn("gelu_1_output.forward.output.0", failed)

    def test_a_fault_is_called_where_the_cpu_does_not_run_the_operator(self):
        self.run_block("""
from msprobe.pytorch.online_dispatch.calls import Call, Skipped
def golden(call, results):
    raise Skipped("operators that the CPU does not run")
Call.golden = golden
with Wrong("mm"), PtdbgDispatch(dump_path="dump") as block:
    torch.mm(torch.full((3, 3), 4.0), torch.ones(3, 3))
    torch.exp(torch.zeros(3))
assert block.failed == {"mm": 1} and block.recomputed == block.checked == 2, (block.failed, block.recomputed)
""")

    def test_the_library_gives_way_to_pytorch_where_they_differ_and_is_soon_not_asked_again(self):
        self.run_block("""
from msprobe.pytorch.online_dispatch import native_forms
asked, right = [], native_forms.recomputed
def wrong(name, *others):
    asked.append(name)
    return [golden + 1 for golden in right(name, *others)]
native_forms.recomputed = wrong
with PtdbgDispatch(dump_path="dump") as block:
    for _ in range(5):
        torch.exp(torch.ones(3))
assert block.passed and block.checked == 5 and block.recomputed == 0, block.failed
assert len(asked) == 3, asked
""")


class Arguments(Case):
    def test_wrong_ones_are_told_with_what_is_allowed(self):
        for argument, said in (("dump_mode='some', dump_path='dump'", "one of all, list, auto, OFF"), ("", "dump_path is an existing folder"),
                               ("dump_path='absent'", "dump_path is an existing folder"), ("dump_path='dump', tag='a/b'", "letters, digits"),
                               ("dump_path='dump', process_num=-1", "process_num is an integer from 0"),
                               ("dump_path='dump', api_list='mm'", "api_list is a list")):
            with self.subTest(argument):
                dump = self.run_block("PtdbgDispatch(%s)\n" % argument, ends_well=False)
                self.assertIn("ValueError", dump.output)
                self.assertIn(said, dump.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
