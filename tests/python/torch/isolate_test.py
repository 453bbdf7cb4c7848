"""msprobe isolate: all modules that are wrong themselves, and no others, in one step."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from script_runs import run_forked

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "isolate_script.py")
MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
FAULTS = {
    "gpt": {"blocks.0.mlp.fc1", "blocks.1.ln1", "blocks.1.attn", "blocks.0.mlp.act", "head"},
    "cnn": {"conv1", "bn", "relu", "pool", "fc"},
    "moe": {"embed", "mixtures.0.gate", "mixtures.0.experts.2", "mixtures.1.experts.1.down", "norms.1"}}
# Of each, one whose forward pass is right.
BACKWARD_ONLY = {"gpt": "blocks.0.mlp.act", "cnn": "relu", "moe": "mixtures.1.experts.1.down"}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_isolate_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run_script(self, *arguments, **options):
        """In a copy of this process; its output."""
        shutil.copy(SCRIPT, self.path("script.py"))
        with open(self.path("script.py")) as file:
            text = file.read().replace("os.path.abspath(__file__)", repr(SCRIPT))
        with open(self.path("script.py"), "w") as file:
            file.write(text)
        status, output = run_forked(self.folder, list(arguments), {})
        self.assertEqual(status, options.get("status", 0), output)
        return output

    def run_code(self, code, status=0):
        with open(self.path("script.py"), "w") as file:
            file.write("import torch, torch.nn as nn, torch.nn.functional as F\ntorch.set_num_threads(1)\n"
                       "from msprobe.pytorch import PrecisionDebugger\n" + code)
        got, output = run_forked(self.folder, [], {})
        self.assertEqual(got, status, output)
        return output

    def rows(self, folder="out", rank="rank"):
        with open(self.path(folder, "step0", rank, "isolate.csv"), newline="") as file:
            return list(csv.DictReader(file))

    def guilty(self, **wanted):
        return {row["module"] for row in self.rows() if row["verdict"] == "guilty"
                and all(row[key] == value for key, value in wanted.items())}


SEVERAL_PASSES = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
debugger = PrecisionDebugger(dump_path="good", task="tensor", level="L0") if len(sys.argv) < 2 else None
if debugger is None:
    from msprobe.pytorch.isolate.session import Isolation
    debugger = Isolation("good", "out")
debugger.start(model=model)
x = torch.randn(3, 4, requires_grad=True)
if sys.argv[1:] == ["faulty"]:
    model[1].forward = lambda h: torch.tanh(h) * 1.1
y = model(x)
%s
debugger.stop()
debugger.step()
print([float(p.grad.norm()) for p in model.parameters() if p.grad is not None])
"""
PASSES = {
    "a penalty": "slope, = torch.autograd.grad(y.sum(), x, create_graph=True)\n(y.mean() + (slope.norm(2, 1) - 1).pow(2).mean()).backward()",
    "a penalty alone": "slope, = torch.autograd.grad(y.sum(), x, create_graph=True)\nslope.pow(2).sum().backward()",
    "a graph that is kept": "y.pow(2).mean().backward(retain_graph=True)\ny.exp().mean().backward()"}


class Passes(Case):
    def test_gradients_of_several_passes_are_not_judged(self):
        for name, code in PASSES.items():
            with self.subTest(name):
                for folder in ("good", "out"):
                    shutil.rmtree(self.path(folder), ignore_errors=True)
                script = "import sys\n" + SEVERAL_PASSES % code
                self.run_code(script)
                for words, wrong in (([], set()), (["faulty"], {"1"})):
                    shutil.rmtree(self.path("out"), ignore_errors=True)
                    status, output = run_forked(self.folder, words or ["same"], {})
                    self.assertEqual(status, 0, output)
                    self.assertEqual(self.guilty(), wrong)
                    reasons = {row["cause"] for row in self.rows() if row["direction"] == "backward"}
                    self.assertTrue(reasons and all("create_graph" in cause or "retain_graph" in cause for cause in reasons), reasons)


class Planted(Case):
    def check(self, model):
        self.run_script(model, "--record", "good")
        same = self.run_script(model, "--isolate", "good", "out")
        self.assertEqual(self.guilty(), set())
        self.assertEqual([row for row in self.rows() if row["verdict"] != "good"], [])
        judged = len(self.rows())
        shutil.rmtree(self.path("out"))
        faulty = self.run_script(model, "--faults", "--isolate", "good", "out")
        self.assertEqual(self.guilty(), FAULTS[model])
        self.assertEqual(len(self.rows()), judged)
        only = BACKWARD_ONLY[model]
        self.assertNotIn(only, self.guilty(direction="forward"))
        self.assertIn(only, self.guilty(direction="backward"))
        [weight] = {row["module"] for row in self.rows() if row["cause"].startswith("parameter")} & FAULTS[model]
        self.assertIn(weight, ("head", "fc", "embed"))
        factors = [float(row["factor"]) for row in self.rows() if row["verdict"] == "guilty"]
        self.assertGreater(min(factors), 20)
        # What is handed on is the reference's: the loss of the step is, too.
        self.assertEqual(*(re.findall(r"^\d\.\d{9}$", text, re.M)[0] for text in (same, faulty)))

    def test_five_faults_of_a_gpt(self):
        self.check("gpt")

    def test_five_faults_of_a_convolutional_net(self):
        self.check("cnn")

    def test_five_faults_of_a_mixture_of_experts(self):
        self.check("moe")


class Values(Case):
    MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.act, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5)
        self.both = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, scale=1.0):
        x = self.act(self.a(x) * scale)
        x, _ = self.both(x, x, x, need_weights=False)
        return {"y": self.b(self.drop(x)), "n": 3}

def step(debugger, seed=1, change=lambda net: None):
    torch.manual_seed(1)
    net = Net()
    change(net)
    torch.manual_seed(seed)
    debugger.start(net)
    x = torch.rand(2, 3, 8, generator=torch.Generator().manual_seed(4))
    net(x, scale=2.0)["y"].square().sum().backward()
    debugger.stop(); debugger.step()
"""

    def record(self):
        self.run_code(self.MODEL + "step(PrecisionDebugger(dump_path='good', task='tensor', level='L0'))\n")

    def test_calls_in_place_tensors_given_twice_keywords_and_dicts(self):
        self.record()
        output = self.run_code(self.MODEL + "step(PrecisionDebugger.isolate('good', 'out'))\n")
        self.assertNotIn("not judged:", output)
        self.assertEqual(self.guilty(), set())
        self.assertEqual({row["module"] for row in self.rows()} - {"the model"}, {"a", "b", "act", "drop", "both"})

    def test_the_same_random_numbers_are_drawn_whatever_the_layout(self):
        code = self.MODEL.replace("self.b(self.drop(x))", "self.b(self.drop(x.transpose(0, 1).contiguous().transpose(0, 1)))")
        self.run_code(code + "step(PrecisionDebugger(dump_path='good', task='tensor', level='L0'))\n")
        self.run_code(code + "step(PrecisionDebugger.isolate('good', 'out'))\n")
        self.assertEqual({row["verdict"] for row in self.rows()}, {"good"})

    def test_random_numbers_are_no_fault(self):
        self.record()
        self.run_code(self.MODEL + "step(PrecisionDebugger.isolate('good', 'out'), seed=2)\n")
        self.assertEqual(self.guilty(), set())
        self.assertEqual({row["module"] for row in self.rows() if row["verdict"] == "random"}, {"drop"})

    def test_rounding_of_another_order_of_summation_is_no_fault(self):
        self.record()
        self.run_code(self.MODEL + """
def other(net):
    for linear in (net.a, net.b):
        linear.forward = lambda x, m=linear: (x.unsqueeze(-2) * m.weight).flip(-1).cumsum(-1)[..., -1] + m.bias
step(PrecisionDebugger.isolate('good', 'out'), change=other)
""")
        self.assertEqual(self.guilty(), set())
        self.assertTrue(any(float(row["error"]) > 0 for row in self.rows() if row["module"] == "a"))

    def test_gradients_of_an_earlier_step_that_are_set_to_zero_behind_the_forward_do_not_count(self):
        model = self.MODEL.replace("debugger.start(net)", "for p in net.parameters(): p.grad = torch.ones_like(p)\n    debugger.start(net)")
        model = model.replace('net(x, scale=2.0)["y"].square().sum().backward()',
                              'loss = net(x, scale=2.0)["y"].square().sum(); net.zero_grad(); loss.backward()')
        self.assertEqual(model.count("zero_grad") + model.count("ones_like"), 2)
        self.run_code(model + "step(PrecisionDebugger(dump_path='good', task='tensor', level='L0'))\n")
        self.run_code(model + "step(PrecisionDebugger.isolate('good', 'out'))\n")
        self.assertEqual(self.guilty(), set())
        self.assertTrue(any(row["what"].startswith("gradient of weight") for row in self.rows()))

    def test_a_module_that_the_reference_does_not_have_is_not_judged(self):
        self.record()
        self.run_code(self.MODEL + """
def other(net): net.a = nn.Sequential(nn.Linear(8, 8))
step(PrecisionDebugger.isolate('good', 'out'), change=other)
""")
        left_out = {row["module"]: row["cause"] for row in self.rows() if row["verdict"] == "not judged"}
        self.assertEqual(left_out, {"a": "the reference has no such call", "a.0": "the reference has no such call"})

    def test_inputs_of_another_shape_are_told(self):
        self.record()
        self.run_code(self.MODEL.replace("torch.rand(2, 3, 8,", "torch.rand(2, 4, 8,") +
                      "step(PrecisionDebugger.isolate('good', 'out'))\n")
        self.assertTrue(all("another form" in row["cause"] for row in self.rows()), self.rows())

    def test_a_reference_that_cannot_be_used_is_refused(self):
        for code in ("PrecisionDebugger.isolate('absent')", "PrecisionDebugger.isolate('.')"):
            self.assertIn("ValueError: the reference", self.run_code(code + "\n", status=1))
        self.record()
        self.assertIn("has no step 5", self.run_code("PrecisionDebugger.isolate('good', step=5)\n", status=1))
        self.run_code(self.MODEL + "step(PrecisionDebugger(dump_path='thin', task='statistics', level='L0'))\n")
        output = self.run_code(self.MODEL + "step(PrecisionDebugger.isolate('thin', 'out'))\n")
        self.assertIn("statistics only", output)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_damaged_tensor_is_left_out_and_the_training_goes_on(self):
        self.record()
        tensors = self.path("good", "step0", "rank", "dump_tensor_data")
        with open(os.path.join(tensors, "Module.b.Linear.forward.0.output.0.pt"), "w") as file:
            file.write("cos\nsystem\n(S'touch hacked'\ntR.")
        output = self.run_code(self.MODEL + "step(PrecisionDebugger.isolate('good', 'out'))\nprint('went on')\n")
        self.assertIn("went on", output)
        self.assertFalse(os.path.exists(self.path("hacked")))
        self.assertEqual(self.guilty(), set())


class Launched(Case):
    def msprobe(self, *arguments, status=0):
        run = subprocess.run([MSPROBE] + list(arguments), cwd=self.folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(run.returncode, status, run.stderr.decode())
        return run.stdout.decode(), run.stderr.decode()

    def test_unmodified_scripts(self):
        command = ["--", sys.executable, SCRIPT, "gpt"]
        self.msprobe("dump", "--task", "tensor", "--level", "L0", "-o", "good", *command)
        _, told = self.msprobe("isolate", "--reference", "good", "-o", "clean", *command)
        self.assertRegex(told, r"(?m)^msprobe: CLEAN: none of \d+ modules computes wrong by itself")
        _, told = self.msprobe("isolate", "-r", "good", "-o", "out", "--fail-on", "guilty", *command, "--faults",
                               status=1)
        self.assertRegex(told, r"(?m)^msprobe: GUILTY: 5 of \d+ modules compute wrong on the reference's own inputs$")
        self.assertEqual(self.guilty(), FAULTS["gpt"])
        self.msprobe("dump", "--level", "L0", "-o", "thin", *command)
        _, told = self.msprobe("isolate", "-r", "thin", "-o", "more", *command, status=3)
        self.assertIn("holds statistics only, and modules cannot run on those", told)

    def test_screen_json_junit_and_exit_code_tell_the_same(self):
        command = ["--", sys.executable, SCRIPT, "cnn"]
        self.msprobe("dump", "--task", "tensor", "--level", "L0", "-o", "good", *command)
        for faults, status, word, guilty in (([], 0, "CLEAN", 0), (["--faults"], 1, "GUILTY", 5)):
            gate = ["isolate", "-r", "good", "-o", "out", "--force", "--fail-on", "guilty"]
            out, _ = self.msprobe(*gate, "--json", "--junit", "r.xml", *command, *faults, status=status)
            answer = json.loads(out)
            self.assertEqual((answer["verdict"]["word"], answer["exit_code"], answer["verdict"]["number"]), (word, status, guilty))
            self.assertEqual([level["found"] for level in answer["levels"] if level["word"] == "guilty"], [status == 1])
            suites = xml.parse(self.path("r.xml")).getroot()
            self.assertEqual((int(suites.get("failures")) > 0, suites.get("errors")), (status == 1, "0"))
            os.remove(self.path("r.xml"))
            _, told = self.msprobe(*gate, *command, *faults, status=status)
            self.assertIn("msprobe: %s\n" % answer["verdict"]["text"], told)
            _, told = self.msprobe(*gate, "-q", *command, *faults, status=status)
            self.assertEqual([line for line in told.splitlines() if "--fail-on guilty" in line],
                             ["failed: --fail-on guilty: " + answer["verdict"]["text"]] if status else [])

    def test_ranks_of_a_distributed_run_have_tables_of_their_own(self):
        command = ["--", sys.executable, os.path.join(HERE, "plain_script.py"), "--processes", "2"]
        self.msprobe("dump", "--task", "tensor", "--level", "L0", "-o", "good", *command)
        os.remove(self.path("rendezvous"))
        _, told = self.msprobe("isolate", "-r", "good", "-o", "out", *command, "--perturb", "blocks.0.mlp.fc1")
        self.assertRegex(told, r"(?m)^msprobe: GUILTY: 1 of \d+ modules computes wrong")
        for rank in ("rank0", "rank1"):
            guilty = {(row["module"], row["cause"]) for row in self.rows(rank=rank)
                      if row["verdict"] == "guilty" and row["direction"] == "forward"}
            self.assertEqual(guilty, {("module.blocks.0.mlp.fc1", "parameter weight differs")})


if __name__ == "__main__":
    unittest.main()
