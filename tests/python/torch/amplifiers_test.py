"""Which calls `msprobe compare` names as amplifiers: never those that only pass on a gradient that is zero in exact arithmetic."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
# The gradient of the bias of k, in front of a softmax, and of a bias in front of a batch normalisation are sums that cancel: rounding alone, by which
# the sides, whose inputs are a unit in the last place apart, differ as much as they are large.
SCRIPT = """
import sys, torch, torch.nn as nn
torch.manual_seed(0)
torch.set_num_threads(1)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        return x + (self.q(x) @ self.k(x).transpose(-1, -2) / 4).softmax(-1) @ self.v(x)

class Normal(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.last(self.norm(self.first(x).flatten(0, 1)).unflatten(0, x.shape[:2]))

model = nn.Sequential({"attention": Attention, "normal": Normal}[sys.argv[1]](), nn.Linear(16, 1))
optimizer = {"adam": torch.optim.Adam, "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)}[sys.argv[2]](model.parameters(), lr=1e-2)
for step in range(3):
    x = torch.randn(4, 8, 16)
    if sys.argv[3] == "apart":
        x = x * (1 + torch.randint(-1, 2, x.shape, generator=torch.Generator().manual_seed(step)) * 2.0 ** -22)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
CANCELLING = {"attention": "0.k", "normal": "0.first"}


class Amplifiers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_amplifiers_")
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(self.folder, "script.py"), "w") as file:
            file.write(SCRIPT)

    def msprobe(self, *words):
        run = subprocess.run([MSPROBE] + list(words), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout.decode())

    def test_gradients_that_are_zero_in_theory_do_not_lead(self):
        for model, optimizer, level in (("attention", "adam", "mix"), ("attention", "adam", "L1"), ("normal", "sgd", "mix"), ("normal", "adam", "mix")):
            with self.subTest(model=model, optimizer=optimizer, level=level):
                for side in ("same", "apart"):
                    shutil.rmtree(os.path.join(self.folder, side), True)
                    self.msprobe("dump", "-q", "--level", level, "-o", side, "--", sys.executable, "script.py", model, optimizer, side)
                shutil.rmtree(os.path.join(self.folder, "out"), True)
                self.msprobe("compare", "-q", "apart", "same", "-o", "out")
                with open(os.path.join(self.folder, "out", "summary.json")) as file:
                    summary = json.load(file)
                for pair in summary["pairs"]:
                    for amplifier in pair["amplifiers"]:
                        self.assertLess(amplifier["input_error"], 1e-2 if level == "mix" else 0.1, (amplifier["call"], amplifier["input_error"], amplifier["output_error"]))
                        self.assertFalse(amplifier["call"].startswith("Module.%s." % CANCELLING[model]) and "parameters_grad" in amplifier["call"], amplifier["call"])


if __name__ == "__main__":
    unittest.main()
