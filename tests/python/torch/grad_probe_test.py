"""The task grad_probe: files equal to the Python tool's, its defects mended, and a training that goes its way."""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase, ShimCase

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "grad_probe")

# A model whose parameters have the golden gradients.
GRADIENTS = """
import json, numpy
stat = %r
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = []
        for name in json.load(open(stat + "/manifest.json"))["order"]:
            path = stat + "/grads/" + name
            half = os.path.exists(path + ".bf16.npy")
            values = numpy.load(path + (".bf16.npy" if half else ".npy"))
            gradient = torch.from_numpy(values.view(numpy.int16)).view(torch.bfloat16) if half else torch.from_numpy(values)
            parameter = nn.Parameter(torch.zeros_like(gradient))
            parameter.grad = gradient
            self.own.append((name, parameter))
    def named_parameters(self, *_, **__):
        return iter(self.own)
model = Model()
debugger.monitor(model)
torch.optim.SGD([parameter for _, parameter in model.own], lr=0.1).step()
""" % os.path.join(GOLDEN, "stat")

NET = """
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(5, 3)).pow(2).sum().backward()
        optimizer.step()
"""


def lines_of(path):
    with open(path, "rb") as file:
        return file.read().split(b"\r\n")


class Case(ForkedCase):
    def probe(self, code, section=None, **keys):
        return self.run_code(code, task="grad_probe", level="L1", section=section or {}, **keys)

    def table(self, dump, step=0, rank=0):
        with open(dump.path("rank%d" % rank, "grad_summary_%d.csv" % step), encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))


class Golden(Case):
    def check_table(self, level, bounds, name):
        section = {"grad_level": level}
        if bounds is not None:
            section["bounds"] = bounds
        dump = self.probe(GRADIENTS, section)
        got = lines_of(dump.path("rank0", "grad_summary_0.csv"))
        expected = lines_of(os.path.join(GOLDEN, "stat", name))
        self.assertEqual(len(got), len(expected))
        norm = re.compile(rb"^(.*),([^,]*),((?:\"[^\"]*\"|\[[^\"]*\]))$")
        for mine, reference in zip(got[1:], expected[1:]):
            if mine != reference:  # sums are added up in another order
                mine, reference = norm.match(mine).groups(), norm.match(reference).groups()
                self.assertEqual((mine[0], mine[2]), (reference[0], reference[2]))
                self.assertAlmostEqual(float(mine[1]), float(reference[1]), delta=1e-6 * float(reference[1]))
        return dump, got, expected

    def test_tables_of_all_levels_are_those_of_the_python_tool(self):
        for level, bounds, name in (("L0", None, "expected_L0_default.csv"), ("L1", None, "expected_L1_default.csv"),
                                    ("L2", None, "expected_L2_default.csv"), ("L2", [-0.5, 0.0, 0.1, 10], "expected_L2_custom.csv")):
            with self.subTest(name):
                dump, got, expected = self.check_table(level, bounds, name)
                self.assertEqual(got[0], expected[0])
                self.assertEqual(os.path.isdir(dump.path("rank0", "step0")), level != "L0")

    def test_signs_are_files_of_numpy_byte_by_byte(self):
        dump = self.probe(GRADIENTS, {"grad_level": "L1"})
        expected = os.path.join(GOLDEN, "stat", "expected_direction")
        self.assertEqual(sorted(os.listdir(dump.path("rank0", "step0"))), sorted(os.listdir(expected)))
        for name in os.listdir(expected):
            with open(os.path.join(expected, name), "rb") as file, open(dump.path("rank0", "step0", name), "rb") as other:
                self.assertEqual(file.read(), other.read(), name)

    def test_without_bounds_the_header_has_the_one_interval_that_there_is(self):
        _, got, _ = self.check_table("L2", [], "expected_L2_empty.csv")
        self.assertEqual(got[0], b'\xef\xbb\xbfparam_name,"(-inf, inf)",=0,max,min,norm,shape')


class Steps(Case):
    def test_every_step_of_an_optimizer_is_one_and_the_run_is_left_when_it_is_over(self):
        dump = self.probe(NET + """
debugger.monitor(net)
train(4)
""", step=[1, "2-2"])
        self.assertEqual(sorted(os.listdir(dump.path("rank0"))), ["grad_summary_1.csv", "grad_summary_2.csv", "step1", "step2"])
        self.assertEqual([row["param_name"] for row in self.table(dump, 1)], ["0.weight", "0.bias", "2.weight", "2.bias"])

    def test_names_that_are_asked_for_are_written_and_others_told(self):
        dump = self.probe(NET + "debugger.monitor(net)\ntrain(1)\n", {"param_list": ["2.bias", "3.bias"]})
        self.assertEqual([row["param_name"] for row in self.table(dump)], ["2.bias"])
        self.assertIn("param_list names 3.bias", dump.output)

    def test_a_rank_that_is_not_selected_writes_nothing(self):
        dump = self.probe(NET + "debugger.monitor(net)\ntrain(1)\n", rank=[1], environment={"WORLD_SIZE": "2", "RANK": "0"})
        self.assertFalse(os.path.exists(dump.path()))

    def test_main_grad_comes_first_and_parameters_without_a_gradient_have_no_row(self):
        dump = self.probe(NET + """
debugger.monitor(net)
net[0].weight.main_grad = torch.full((4, 3), 5.0)
net[0].weight.grad = torch.full((4, 3), 1.0)
net[2].bias.grad = torch.tensor([1.0, -1.0])
optimizer.step()
""")
        rows = self.table(dump)
        self.assertEqual([(row["param_name"], row["max"]) for row in rows], [("0.weight", "5.0"), ("2.bias", "1.0")])
        self.assertIn("0.bias has no gradient", dump.output)

    def test_a_table_of_an_earlier_run_is_gone_when_its_step_begins(self):
        folder = self.folder()
        os.makedirs(os.path.join(folder, "dump", "rank0"))
        with open(os.path.join(folder, "dump", "rank0", "grad_summary_0.csv"), "w") as file:
            file.write("old")
        dump = self.probe(NET + "debugger.monitor(net)\ntrain(1)\ndebugger.stop()\n"
                          "assert 'old' not in open('dump/rank0/grad_summary_0.csv').read()\n", folder=folder)
        self.assertEqual(len(self.table(dump)), 4)


class Packed(Case):
    def test_bits_hold_the_same_signs_in_an_eighth_of_the_room_and_compare_with_bytes(self):
        import numpy
        plain = self.probe(GRADIENTS)
        packed = self.probe(GRADIENTS, {"sign_format": "packed"})
        names = sorted(os.listdir(plain.path("rank0", "step0")))
        self.assertEqual(sorted(os.listdir(packed.path("rank0", "step0"))), [name[:-1] + "z" for name in names])
        for name in names:
            flags = numpy.load(plain.path("rank0", "step0", name))
            file = numpy.load(packed.path("rank0", "step0", name[:-1] + "z"))
            self.assertEqual(tuple(file["shape"]), flags.shape)
            self.assertEqual(numpy.unpackbits(file["bits"], count=flags.size).reshape(flags.shape).astype(bool).tolist(), flags.tolist())
        for first, second in ((plain, packed), (packed, plain), (packed, packed)):
            output = os.path.join(self.folder(), "result")
            said = subprocess.run([os.environ["MSPROBE"], "grad_compare", first.path(), second.path(), "-o", output, "--fail-on", "parameter"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(said.returncode, 0, said.stdout)
            self.assertIn(b"IDENTICAL", said.stdout)


class Defects(Case):
    def test_gradients_without_elements_sparse_ones_and_views_have_rows(self):
        dump = self.probe("""
net = nn.Module()
net.empty, net.table, net.turned = (nn.Parameter(torch.zeros(shape)) for shape in ((0, 3), (3, 2), (2, 3)))
net.empty.grad = torch.zeros(0, 3)
net.table.grad = torch.sparse_coo_tensor([[1]], torch.tensor([[2.0, -3.0]]), (3, 2))
net.turned.grad = torch.arange(-2.0, 4.0).view(3, 2).t()
debugger.monitor(net)
torch.optim.SGD(net.parameters(), lr=0.1).step()
""", {"grad_level": "L2"})
        rows = {row["param_name"]: row for row in self.table(dump)}
        self.assertEqual((rows["empty"]["max"], rows["empty"]["norm"], rows["empty"]["shape"], rows["empty"]["=0"]), ("nan", "0.0", "[0, 3]", "0.0"))
        self.assertEqual((rows["table"]["max"], rows["table"]["min"], rows["table"]["shape"]), ("2.0", "-3.0", "[3, 2]"))
        import numpy
        self.assertEqual(numpy.load(dump.path("rank0", "step0", "turned.npy")).tolist(), [[False, False, True], [False, True, True]])

    def test_a_disk_that_takes_nothing_does_not_end_the_training(self):
        dump = self.probe(NET + """
debugger.monitor(net)
open("dump", "w").close()
train(3)
print("trained")
""")
        self.assertIn("trained", dump.output)
        self.assertIn("grad_probe:", dump.output)
        self.assertEqual(dump.output.count("steps are not written"), 1, dump.output)

    def test_what_is_no_model_is_an_error_of_the_script(self):
        dump = self.probe("debugger.monitor([1])\n", ends_well=False)
        self.assertIn("monitor() takes the model, a torch.nn.Module, not list", dump.output)

    def test_wrong_settings_name_key_and_remedy(self):
        for section, said in (({"bounds": [1, 0]}, "bounds rise"), ({"bounds": 3}, "a list of rising numbers"), ({"bounds": ["a"]}, "allowed: numbers"),
                              ({"bounds": [2 ** 63]}, "64 bits"), ({"grad_level": "L3"}, "L0"), ({"grad_levels": "L1"}, "grad_level")):
            with self.subTest(section):
                dump = self.probe("", section, ends_well=False)
                self.assertIn(said, dump.output)
                self.assertIn("config.json", dump.output)

    def test_a_forked_process_writes_nothing_and_the_parent_goes_on(self):
        dump = self.probe(NET + """
debugger.monitor(net)
train(1)
child = os.fork()
if child == 0:
    train(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
train(1)
""")
        self.assertEqual(len(self.table(dump, 1)), 4)

    def test_two_runs_are_compared_from_python(self):
        self.probe(NET + """
from msprobe.pytorch import GradComparator
debugger.monitor(net)
train(2)
debugger.stop()
GradComparator.compare_distributed("dump", "dump", "result")
GradComparator.compare_distributed("dump", "dump", "result")
assert "summary,1.0,1.0" in open("result/rank0/similarities.csv").read()
try:
    GradComparator.compare_distributed("dump", "absent", "result")
except RuntimeError as error:
    assert "absent does not exist" in str(error)
else:
    raise AssertionError
""")


class Killed(ShimCase):
    def test_a_killed_run_leaves_every_step_that_was_written_whole(self):
        folder = self.folder()
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"task": "grad_probe", "dump_path": "dump"}, file)
        with open(os.path.join(folder, "script.py"), "w") as file:
            file.write("import torch\nfrom torch import nn\nfrom msprobe.pytorch import PrecisionDebugger\n"
                       "debugger = PrecisionDebugger('config.json')\n" + NET + "debugger.monitor(net)\ntrain(10 ** 9)\n")
        process = subprocess.Popen([sys.executable, "script.py"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rank = os.path.join(folder, "dump", "rank0")
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(rank, "grad_summary_20.csv")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        tables = [name for name in os.listdir(rank) if name.startswith("grad_summary")]
        self.assertGreater(len(tables), 20)
        for name in tables:
            with open(os.path.join(rank, name), encoding="utf-8-sig", newline="") as file:
                self.assertEqual(len(list(csv.reader(file))), 5, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
