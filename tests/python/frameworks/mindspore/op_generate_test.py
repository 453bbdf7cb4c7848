"""msprobe -f mindspore op_generate: its scripts run APIs under this MindSpore, with the PyTorch of the environment beside it as the bench."""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402

TORCH = Path(harness.packages_of("torch"))


def tensor(shape, low, high, dtype="Float32", **more):
    return dict({"type": "mindspore.Tensor", "dtype": dtype, "shape": shape, "Max": high, "Min": low}, **more)


CALLS = {
    "MintFunctional.relu.0": ([tensor([3, 5], -2.0, 2.0)], {}, [tensor([3, 5], -1.0, 1.0)]),
    "Mint.matmul.0": ([tensor([3, 4], -1.0, 1.0), tensor([4, 2], -1.0, 1.0)], {}, [tensor([3, 2], -1.0, 1.0)]),
    "Mint.add.0": ([tensor([2, 3], -1.0, 1.0), tensor([3], -1.0, 1.0)], {"alpha": {"type": "int", "value": 2}}, [tensor([2, 3], -1.0, 1.0)]),
    "Functional.relu.0": ([tensor([4], -1.0, 1.0)], {}, [tensor([4], -1.0, 1.0)]),
    "Tensor.abs.0": ([tensor([4], -1.0, 1.0)], {}, [tensor([4], -1.0, 1.0)]),
}


@unittest.skipUnless((TORCH / "torch").is_dir(), "no environment with PyTorch beside this one: %s" % TORCH)
class OpGenerate(harness.FrameworkCase):
    framework = "mindspore"
    subject = "op_generate"

    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_op_"))
        self.addCleanup(shutil.rmtree, str(self.folder))

    def script(self, name, propagation):
        args, kwargs, gradients = CALLS[name]
        (self.folder / "extracted.json").write_text(json.dumps({
            name + ".forward": {"input_args": args, "input_kwargs": kwargs, "output": []},
            name + ".backward": {"input": gradients, "output": []}}))
        (self.folder / "op.json").write_text(json.dumps({"api_name": name, "extract_api_path": str(self.folder / "extracted.json"),
                                                         "propagation": propagation, "iter_times": 2}))
        subprocess.run([harness.MSPROBE, "-f", "mindspore", "op_generate", "-i", str(self.folder / "op.json"), "-o", str(self.folder), "-q", "--force"],
                       check=True)
        return self.folder / ("%s.%s.py" % (name, propagation))

    def run_script(self, script):
        shutil.rmtree(str(self.folder / "op_result_output"), ignore_errors=True)
        ended = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                               cwd=str(self.folder), env=dict(os.environ, PYTHONPATH=str(TORCH), DEVICE="CPU"))
        tables = []
        for kind in ("details", "result"):
            for path in glob.glob(str(self.folder / "op_result_output" / ("accuracy_checking_%s_*.csv" % kind))):
                with open(path, encoding="utf-8-sig", newline="") as file:
                    tables.append(list(csv.DictReader(file)))
        return ended, tables

    def test_apis_agree_with_pytorch_and_a_wrong_one_does_not(self):
        for name in CALLS:
            for propagation in ("forward", "backward"):
                with self.subTest(name=name, propagation=propagation):
                    ended, tables = self.run_script(self.script(name, propagation))
                    self.assertEqual(ended.returncode, 0, ended.stdout)
                    self.assertIn("%s %s under MindSpore: pass" % (name, propagation), ended.stdout)
                    details, [row] = tables
                    self.assertEqual(row["Forward Test Success" if propagation == "forward" else "Backward Test Success"], "pass")
                    self.assertEqual({detail["Status"] for detail in details}, {"pass"})
                    self.assertGreaterEqual(len(details), 2)
        script = self.script("MintFunctional.relu.0", "forward")
        text = script.read_text()
        wrong = text.replace("function(*values[0], **values[1])", "[item + item for item in [function(*values[0], **values[1])]]")
        self.assertNotEqual(text, wrong)
        script.write_text(wrong)
        ended, tables = self.run_script(script)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("max absolute difference is greater than threshold", tables[1][0]["Message"])


if __name__ == "__main__":
    unittest.main()
