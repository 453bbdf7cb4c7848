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
