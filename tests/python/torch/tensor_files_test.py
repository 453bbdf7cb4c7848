"""Tensor files of a dump are loaded by PyTorch itself with weights_only=True, with the values they had.

usage: tensor_files_test.py [unittest arguments]     MSPROBE_OTHER_PYTHON: an interpreter with another version of PyTorch,
which has to load what this one recorded
"""
import os
import subprocess
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase

DTYPES = [name for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
                            "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
                            "uint16", "uint32", "uint64") if hasattr(torch, name)]
SCRIPT = """
import zlib
class Keep(nn.Module):
    def forward(self, x):
        return x
model = nn.Sequential(Keep())
debugger.start(model=model)
expected = []
for name in %r:
    dtype = getattr(torch, name)
    whole = (torch.arange(48) %% 7 - 2).abs().to(dtype)
    for x in (whole.view(4, 12), whole.view(4, 12).t(), whole[:1].view(()), whole[:0].view(0, 3), whole[5:29:3],
              nn.Parameter(whole.view(2, 24), requires_grad=False)):
        model(x)
        expected.append(x.detach().contiguous().clone())
debugger.stop()
torch.save(expected, "expected.pt")
""" % DTYPES
LOADER = """
import os, sys, torch
folder, count = sys.argv[1], int(sys.argv[2])
expected = torch.load(os.path.join(folder, "expected.pt"))
for number in range(count):
    path = os.path.join(folder, "dump", "step0", "rank", "dump_tensor_data", "Module.0.Keep.forward.%d.output.0.pt" % number)
    found, wanted = torch.load(path, weights_only=True), expected[number]
    assert type(found) is torch.Tensor, (path, type(found))
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (path, found.dtype, found.shape)
    raw = [item.detach().contiguous().clone().flatten() for item in (found, wanted)]
    raw = [bytes(item.view(torch.uint8).numpy()) if item.numel() else b"" for item in raw]
    assert raw[0] == raw[1], path
print("loaded", count)
"""


class TensorFiles(ForkedCase):
    def check(self, python, names):
        dump = self.run_code(SCRIPT.replace(repr(DTYPES), repr(names)), task="tensor", level="L0")
        count = len(names) * 6
        run = subprocess.run([python, "-c", LOADER, dump.folder, str(count)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, universal_newlines=True,
                             env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"})
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("loaded %d" % count, run.stdout)

    def test_by_this_version(self):
        self.check(sys.executable, DTYPES)

    def test_by_another_version(self):
        python = os.environ.get("MSPROBE_OTHER_PYTHON", "")
        if not python or subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("there is no other version of PyTorch")
        self.check(python, DTYPES[:12])


if __name__ == "__main__":
    unittest.main(verbosity=2)
