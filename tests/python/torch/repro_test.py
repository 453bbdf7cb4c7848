"""msprobe repro: the script that it writes makes the call again under this PyTorch, and what it computes is within its bound."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch  # noqa: F401  pylint: disable=unused-import
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ["MSPROBE"]
DATA = Path(__file__).resolve().parents[2] / "data/recheck"


def run(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


class Repro(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_repro_"))
        self.addCleanup(shutil.rmtree, str(self.folder))

    def write(self, side, call, *flags):
        folder = self.folder / "repro"
        shutil.rmtree(str(folder), ignore_errors=True)
        written = run(MSPROBE, "repro", DATA / side, call, "-o", folder, *flags)
        self.assertEqual(written.returncode, 0, written.stdout)
        return folder

    def make_again(self, folder):
        """What run.py prints, and what recheck says of its results."""
        dump = self.folder / "again"
        shutil.rmtree(str(dump), ignore_errors=True)
        made = run(sys.executable, folder / "run.py", "-o", dump)
        self.assertEqual(made.returncode, 0, made.stdout)
        return made.stdout, run(MSPROBE, "recheck", dump).stdout

    def test_calls_are_made_again(self):
        for call in ("Functional.gelu.0.forward", "Functional.gelu.0.backward", "Functional.layer_norm.0.forward", "Functional.layer_norm.0.backward",
                     "Functional.linear.0.backward", "Torch.matmul.0.forward", "Tensor.transpose.0.forward", "Functional.mse_loss.0.backward"):
            with self.subTest(call=call):
                printed, verdict = self.make_again(self.write("bench", call))
                self.assertRegex(printed, "equal to the captured one|off by up to [0-9.]+e-0[5-9]")
                self.assertIn("WITHIN BOUNDS", verdict)

    def test_a_wrong_result_is_not_made_again(self):
        printed, verdict = self.make_again(self.write("npu", "Functional.gelu.0"))
        self.assertRegex(printed, "output.0: off by up to 0.0[0-9]+")
        self.assertIn("WITHIN BOUNDS", verdict)

    def test_so_it_is_when_it_was_made_smaller(self):
        folder = self.write("npu", "Functional.gelu.0", "--minimise")
        printed, verdict = self.make_again(folder)
        self.assertRegex(printed, r"output.0: off by up to 0.0045\d+: element 0 is -0.1533\d+, captured -0.1487\d+")
        self.assertIn("WITHIN BOUNDS", verdict)
        self.assertIn("WRONG", run(MSPROBE, "recheck", folder / "dump").stdout)


    def test_the_exit_code_says_whether_the_fault_shows(self):
        for flags in ((), ("--minimise",)):
            folder = self.write("npu", "Functional.gelu.0", *flags)
            right = run(sys.executable, folder / "run.py")
            self.assertEqual(right.returncode, 0, right.stdout)
            self.assertIn("the fault does not show: element", right.stdout)
            text = (folder / "run.py").read_text()
            (folder / "run.py").write_text(text.replace("return torch.nn.functional.gelu(*args, **kwargs)",
                                                        "return torch.nn.functional.gelu(*args, **kwargs) * 1.02"))
            wrong = run(sys.executable, folder / "run.py")
            self.assertEqual(wrong.returncode, 1, wrong.stdout)
            self.assertIn("the fault shows", wrong.stdout)
        self.assertEqual(run(sys.executable, folder / "run.py", "-o", folder).returncode, 2)
        self.assertEqual(run(sys.executable, folder / "run.py", "--no-such").returncode, 2)
        shutil.rmtree(str(folder / "dump" / "dump_tensor_data"))
        self.assertEqual(run(sys.executable, folder / "run.py").returncode, 3)


CALLS = """
import sys
import torch
import torch.nn.functional as F
from msprobe.pytorch import PrecisionDebugger

torch.manual_seed(0)
debugger = PrecisionDebugger(dump_path=sys.argv[1], task="tensor", level="L1")
debugger.start()
x = torch.randn(3, 4, requires_grad=True)
w, b = torch.randn(4), torch.randn(4)
x.softmax(dim=-1)
x.softmax(1)
x.cumsum(dim=1)
torch.clamp(x, -0.5, max=0.5)
x.masked_fill(x > 1, value=2.0)
F.layer_norm(x, (4,), weight=w, bias=b, eps=1e-3)
F.layer_norm(x, (4,), w, b)
F.linear(x, torch.randn(5, 4), torch.randn(5))
F.embedding(torch.tensor([1, 2]), x)
torch.where(x > 0, x, w)
F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=torch.zeros(3, 3)) if hasattr(F, "scaled_dot_product_attention") else None
torch.addcmul(x, x, w, value=2.0)
F.leaky_relu(x, negative_slope=0.2)
F.nll_loss(F.log_softmax(x, dim=1), torch.tensor([0, 1, 2]), weight=w.abs(), reduction="none")
debugger.stop()
debugger.step()
"""


class ReproOfMadeSmaller(unittest.TestCase):
    def test_what_is_left_of_the_arguments_is_a_call_of_pytorch(self):
        folder = Path(tempfile.mkdtemp(prefix="msprobe_repro_"))
        self.addCleanup(shutil.rmtree, str(folder))
        (folder / "script.py").write_text(CALLS)
        made = run(sys.executable, folder / "script.py", folder / "dump")
        self.assertEqual(made.returncode, 0, made.stdout)
        rank = folder / "dump/step0/rank"
        results = {path.name.replace(".output.0.pt", ""): path for path in sorted((rank / "dump_tensor_data").glob("*.forward.output.0.pt"))}
        for call, path in results.items():
            if call.split(".")[1] in ("log_softmax", "__getitem__", "__gt__", "gt", "abs", "randn", "tensor", "zeros"):
                continue
            with self.subTest(call=call):
                tensor = torch.load(str(path))
                tensor.detach().view(-1)[-1].add_(0.75)
                torch.save(tensor, str(path))
                out = folder / call
                written = run(MSPROBE, "repro", folder / "dump", call, "--minimise", "-o", out)
                self.assertEqual(written.returncode, 0, written.stdout)
                self.assertIn("Made smaller", written.stdout)
                again = run(sys.executable, out / "run.py")
                self.assertEqual(again.returncode, 0, again.stdout)
                self.assertIn("the fault does not show", again.stdout)


NET = """
import sys
import torch
from msprobe.pytorch import PrecisionDebugger

class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.weight, self.factor = torch.nn.Parameter(torch.rand(6)), factor
    def forward(self, x):
        return x * self.weight * self.factor

def scale():
    return Scale(3)

if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3, stride=2, padding=1), torch.nn.GELU("tanh"), torch.nn.Flatten(), torch.nn.Linear(16, 6),
                              torch.nn.LayerNorm(6, eps=1e-6), Scale(3))
    debugger = PrecisionDebugger(dump_path=sys.argv[1], task="tensor", level="L0")
    debugger.start(model=net)
    net(torch.randn(3, 2, 8, requires_grad=True)).square().sum().backward()
    debugger.stop()
    debugger.step()
"""

RANKS = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing
from msprobe.pytorch import PrecisionDebugger

def work(rank, meeting, out):
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=2)
    debugger = PrecisionDebugger(dump_path=out, task="tensor", level="L1")
    debugger.start()
    tensor = torch.arange(6.) * (rank + 1) + 0.1
    dist.all_reduce(tensor)
    dist.broadcast(tensor, src=1)
    dist.all_gather([torch.empty(6) for _ in range(2)], tensor)
    own, other = torch.full((3,), rank + 0.5), torch.empty(3)
    if rank == 0:
        dist.send(own, 1)
    else:
        dist.recv(other, 0)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, own, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]):
        work.wait()
    debugger.stop()
    debugger.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1], sys.argv[2]), 2)
"""


class ReproOfModulesAndRanks(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_repro_"))
        self.addCleanup(shutil.rmtree, str(self.folder))

    def capture(self, text, *words):
        script = self.folder / "captured_script.py"
        script.write_text(text)
        made = run(sys.executable, script, *words)
        self.assertEqual(made.returncode, 0, made.stdout)
        return script

    def make_again(self, call, *flags, rank=None):
        folder, again = self.folder / "repro", self.folder / "again"
        for old in (folder, again):
            shutil.rmtree(str(old), ignore_errors=True)
        written = run(MSPROBE, "repro", self.folder / "dump", call, "-o", folder, *(["--rank", rank] if rank is not None else []))
        self.assertEqual(written.returncode, 0, written.stdout)
        return run(sys.executable, folder / "run.py", "-o", again, *flags)

    def test_modules_are_made_again_from_their_parameters(self):
        script = self.capture(NET, self.folder / "dump")
        for call in ("Module.0.Conv1d.forward.0", "Module.1.GELU.forward.0", "Module.3.Linear.forward.0", "Module.4.LayerNorm.forward.0",
                     "Module.4.LayerNorm.backward.0", "Module.3.Linear.backward.0"):
            with self.subTest(call=call):
                made = self.make_again(call)
                self.assertEqual(made.returncode, 0, made.stdout)
                self.assertRegex(made.stdout, "equal to the captured one|off by up to [0-9.]+e-0[6-9]")
                self.assertNotRegex(made.stdout, "off by up to ([0-9.]+:|[0-9.]+e[+]|[0-9.]+e-0[1-5])")
        self.assertIn("WITHIN BOUNDS", run(MSPROBE, "recheck", self.folder / "again").stdout)
        made = self.make_again("Module.5.Scale.forward.0")
        self.assertEqual(made.returncode, 2)
        self.assertIn("give --module FILE.py:FUNCTION", made.stdout)
        made = self.make_again("Module.5.Scale.forward.0", "--module", "%s:scale" % script)
        self.assertEqual(made.returncode, 0, made.stdout)
        self.assertIn("output.0: equal to the captured one", made.stdout)

    def test_communication_is_made_again_by_as_many_processes(self):
        self.capture(RANKS, self.folder / "meeting", self.folder / "dump")
        for call, rank in (("Distributed.all_reduce.0.forward", 0), ("Distributed.broadcast.0.forward", 1), ("Distributed.recv.0.forward", 1),
                           ("Distributed.batch_isend_irecv.0.forward", 0)):
            with self.subTest(call=call):
                made = self.make_again(call, rank=rank)
                self.assertEqual(made.returncode, 0, made.stdout)
                self.assertIn("rank 0, output 0: equal to the captured one", made.stdout)
                self.assertIn("rank 1, output 0: equal to the captured one", made.stdout)
                self.assertNotIn("off by", made.stdout)
                self.assertIn("WITHIN BOUNDS: 2 calls recomputed", run(MSPROBE, "recheck", self.folder / "again").stdout)
                self.assertIn("WITHIN BOUNDS: 2 calls recomputed", run(MSPROBE, "recheck", self.folder / "repro/dump").stdout)

    def test_a_rank_that_is_missing_is_named(self):
        self.capture(RANKS, self.folder / "meeting", self.folder / "dump")
        shutil.rmtree(str(self.folder / "dump/step0/rank0"))
        written = run(MSPROBE, "repro", self.folder / "dump", "Distributed.recv.0.forward", "-o", self.folder / "repro")
        self.assertIn("no script for PyTorch: rank 0 is not in the dump", written.stdout)
        self.assertFalse((self.folder / "repro/run.py").exists())


class OpGenerate(unittest.TestCase):
    def test_scripts_run_and_judge(self):
        folder = Path(tempfile.mkdtemp(prefix="msprobe_op_"))
        self.addCleanup(shutil.rmtree, str(folder))
        for api, propagation, mode in (("Functional.gelu.0", "forward", "random_data"), ("Functional.layer_norm.0", "backward", "random_data"),
                                       ("Functional.linear.0", "backward", "real_data"), ("Functional.softmax.0", "backward", "random_data"),
                                       ("Torch.matmul.0", "forward", "real_data"), ("Tensor.transpose.0", "backward", "random_data"),
                                       ("Torch.ones_like.0", "forward", "random_data"), ("Functional.mse_loss.0", "backward", "real_data")):
            with self.subTest(api=api, propagation=propagation, mode=mode):
                configuration = {"dump_json_path": str(DATA / "bench/step0/rank/dump.json"), "api_name": api, "propagation": propagation,
                                 "data_mode": mode, "extract_api_path": str(folder / "extracted.json"), "iter_times": 2}
                (folder / "op.json").write_text(json.dumps(configuration))
                written = run(MSPROBE, "-f", "pytorch", "op_generate", "-i", folder / "op.json", "-o", folder, "--force")
                self.assertEqual(written.returncode, 0, written.stdout)
                made = run("env", "DEVICE=cpu", sys.executable, folder / ("%s.%s.py" % (api, propagation)))
                self.assertEqual(made.returncode, 0, made.stdout)
                self.assertIn("%s %s on cpu: pass" % (api, propagation), made.stdout)
                self.assertIn("Compare Standard", made.stdout)

    def test_a_wrong_device_fails(self):
        folder = Path(tempfile.mkdtemp(prefix="msprobe_op_"))
        self.addCleanup(shutil.rmtree, str(folder))
        (folder / "op.json").write_text(json.dumps({"dump_json_path": str(DATA / "bench/step0/rank/dump.json"), "api_name": "Functional.gelu.0",
                                                    "extract_api_path": str(folder / "extracted.json")}))
        run(MSPROBE, "op_generate", "-i", folder / "op.json", "-o", folder)
        script = folder / "Functional.gelu.0.forward.py"
        text = script.read_text()
        wrong = text.replace("return torch.nn.functional.gelu(*args, **kwargs)",
                             "return torch.nn.functional.gelu(*args, **kwargs) * (1.05 if args[0].dtype == torch.float32 else 1)")
        self.assertNotEqual(text, wrong)
        script.write_text(wrong)
        made = run("env", "DEVICE=cpu", sys.executable, script)
        self.assertEqual(made.returncode, 1, made.stdout)
        self.assertIn("on cpu: error", made.stdout)


if __name__ == "__main__":
    unittest.main()
