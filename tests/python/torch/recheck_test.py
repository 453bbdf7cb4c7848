"""msprobe recheck against this PyTorch: correct implementations are never called wrong, planted faults are.

The quick part takes a few samples of frequent operators; MSPROBE_RECHECK=whole takes all samples of all operators: minutes, where
TMPDIR is in memory, as a dump of them has 260,000 files.
"""
import collections
import csv
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401  pylint: disable=unused-import
    import numpy  # noqa: F401  pylint: disable=unused-import
except ImportError:
    print("PyTorch and NumPy are not installed: skipped")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from recheck_samples import CHANGES, changed  # noqa: E402  pylint: disable=wrong-import-position

MSPROBE = os.environ["MSPROBE"]
IS_WHOLE = os.environ.get("MSPROBE_RECHECK") == "whole"
NETS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench", "recheck_nets.py")
SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recheck_samples.py")
FREQUENT = ("add,sub,mul,div,exp,log,sigmoid,tanh,gelu,silu,relu,softmax,log_softmax,matmul,mm,bmm,addmm,linear,layer_norm,group_norm,sum,mean,cat,"
            "where,mse_loss,cross_entropy,embedding,pow,permute,pad,svd_lowrank,einsum,conv1d,conv2d,conv_transpose2d,max_pool2d,avg_pool2d,interpolate,sort,topk,gather,scatter_add,max,var,std,logsumexp,vector_norm,"
            "scaled_dot_product_attention,inverse,solve,det,slogdet,triangular_solve,cholesky,cholesky_solve,cholesky_inverse")
KINDS = ["wrong element", "missing scale", "swapped axes", "window off by one", "stale tile", "accumulation in bfloat16", "wrong eps"]


def is_rounding(wrong, right, incoming):
    """Whether two gradients differ by no more than the rounding of the gradients that came in.

    Where a gradient cancels to nothing, as that of a normalisation of two numbers does, or of the mean of what was normalised, all that is left of it is
    rounding: any other number of that size is as right.
    """
    largest = max((float(gradient.abs().max()) for gradient in incoming if gradient.numel()), default=0)
    return float((wrong.double() - right.double()).abs().max()) <= 16 * torch.finfo(right.dtype).eps * largest


def is_known_defect(row):
    """With AVX2 and AVX-512, PyTorch 1.13 gives NaN where a quotient that is rounded down is beyond the largest float32; its other code gives infinity."""
    return (row["Call"].startswith(("Torch.div.", "Torch.floor_divide.", "Torch.remainder.")) and row["Captured"] == "nan" and
            abs(float(row["Exact"])) > torch.finfo(torch.float32).max)


class Recheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe_recheck_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def rows(self, *flags, environment=None, judged_by=()):
        """{call: row} of a capture of samples and its recheck, with the flags `judged_by`."""
        dump = os.path.join(self.folder, "dump")
        ended = subprocess.run([sys.executable, SAMPLES, dump, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                               env=dict(os.environ, **(environment or {})))
        last = ended.stdout.splitlines()[-1:] or [""]
        if re.search("cannot import|No module named", last[0]) and "msprobe" not in last[0]:
            self.skipTest("the samples of PyTorch's own tests cannot be imported here: " + last[0])
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return self.recheck(*judged_by)

    def recheck(self, *flags, sides=("dump",)):
        """{call: row}; of two sides the row of the second, which tells the wrong one as well."""
        result = tempfile.mkdtemp(dir=self.folder)
        subprocess.run([MSPROBE, "recheck", *(os.path.join(self.folder, side) for side in sides), "-o", result, "-q", *flags], check=True)
        [file] = glob.glob(result + "/*.csv")
        with open(file, encoding="utf-8-sig", newline="") as lines:
            return {row["Call"]: row for row in csv.DictReader(lines)}

    def assert_no_false_alarms(self, *flags, environment=None, at_least=0):
        rows = self.rows(*flags, environment=environment)
        wrong = [(row["Call"], row["Ratio"], row["Tensor"], row["Element"], row["Captured"], row["Exact"]) for row in rows.values()
                 if row["Verdict"] == "beyond" and not is_known_defect(row)]
        self.assertEqual(wrong, [])
        self.assertGreater(sum(row["Verdict"] == "within" for row in rows.values()), at_least)

    def test_correct_implementations_are_within_their_bounds(self):
        if IS_WHOLE:
            self.assert_no_false_alarms(at_least=15000)
        else:
            self.assert_no_false_alarms("--operators", FREQUENT, "--samples", "3", at_least=700)

    @unittest.skipUnless(IS_WHOLE, "takes minutes: MSPROBE_RECHECK=whole runs it")
    def test_so_are_those_of_other_instruction_sets_and_threads(self):
        for capability in ("default", "avx2", "avx512"):
            for threads in ("1", "2"):
                with self.subTest(capability=capability, threads=threads):
                    self.setUp()
                    self.assert_no_false_alarms("--samples", "6", environment={"ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": threads}, at_least=9000)

    def test_training_steps_are_within_their_bounds_and_a_wrong_step_of_the_optimizer_is_not(self):
        """A convolutional net with SGD, a GPT with AdamW and a BERT-like encoder with Adam."""
        subprocess.run([sys.executable, NETS, self.folder], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"))
        rows = self.recheck()
        self.assertEqual([name for name, row in rows.items() if row["Verdict"] == "beyond"], [])
        new_parameter = "Tensor.addcdiv_.0.forward"
        self.assertEqual(rows[new_parameter]["Verdict"], "within")
        [file] = glob.glob(f"{self.folder}/dump/step5/rank*/dump_tensor_data/{new_parameter}.output.0.pt")
        torch.save(torch.load(file) * (1 + 1e-5), file)
        self.assertEqual([name for name, row in self.recheck().items() if row["Verdict"] == "beyond"], [new_parameter])

    def test_planted_faults_are_called(self):
        """99 of 100 of each kind, of calls that can be checked."""
        for kind in KINDS if IS_WHOLE else ["wrong element", "accumulation in bfloat16", "wrong eps"]:
            with self.subTest(kind=kind):
                self.setUp()
                few = [] if IS_WHOLE else ["--samples", "3", "--operators", FREQUENT]
                # By themselves, factors in bfloat16 may pass for TF32 where their errors happen to be small.
                rows = self.rows("--dtypes", "float32", "--fault", kind, *few, judged_by=("--factors", "float32"))
                with open(os.path.join(self.folder, "dump.planted.json"), encoding="utf-8") as file:
                    planted = [name for name in json.load(file) if name in rows and rows[name]["Verdict"] != "not checkable"]
                called = [name for name in planted if rows[name]["Verdict"] == "beyond"]
                self.assertGreater(len(planted), 1)
                missed = [(name, rows[name]["Verdict"], rows[name]["Ratio"]) for name in planted if name not in called]
                print(f"{kind}: {len(called)} of {len(planted)}", missed[:20], flush=True)
                self.assertLessEqual(len(missed), len(planted) // 100, missed)

    def test_planted_faults_in_gradients_are_called(self):
        """99 of 100 of each kind, of gradients that can be checked and are more than rounding: captured ones are changed behind the capture. So often
        the wrong side is told, too, when both stand beside each other."""
        few = [] if IS_WHOLE else ["--samples", "2", "--operators", FREQUENT]
        rows = self.rows("--dtypes", "float32", *few)
        shutil.copytree(self.folder + "/dump", self.folder + "/bench")
        [data] = glob.glob(self.folder + "/dump/step0/rank*/dump_tensor_data")
        [right] = glob.glob(self.folder + "/bench/step0/rank*/dump_tensor_data")
        incoming_files = collections.defaultdict(list)   # a folder of 100,000 files is not to be searched for each call
        for file in os.listdir(right):
            name, is_input, _ = file.partition(".input.")
            if is_input and file.endswith(".pt"):
                incoming_files[name].append(os.path.join(right, file))
        for kind, change in CHANGES.items():
            with self.subTest(kind=kind):
                shutil.rmtree(data)
                shutil.copytree(right, data)
                planted = []
                for name, row in rows.items():
                    file = os.path.join(data, f"{name}.{row['Tensor']}.pt")
                    if name.endswith(".backward") and row["Verdict"] == "within" and os.path.exists(file):
                        true = torch.load(file)
                        wrong = changed(true, change)
                        incoming = [torch.load(other) for other in incoming_files[name]]
                        if wrong is not None and not is_rounding(wrong, true, incoming):
                            torch.save(wrong, file)
                            planted.append(name)
                # Captured on a CPU, which has no TF32: its bounds are wide where the scores of attention are large.
                judged = self.recheck("--direction", "backward", "--factors", "float32", sides=("bench", "dump"))
                missed = [(name, judged[name]["Verdict"], judged[name]["Ratio"]) for name in planted if judged[name]["Verdict"] != "beyond"]
                guilty = sum(judged[name]["Wrong Side"] == "bench" for name in planted)  # the second dump is the planted one
                print(f"{kind} in a gradient: {len(planted) - len(missed)} of {len(planted)}, the wrong side told {guilty} times", missed[:20], flush=True)
                self.assertGreater(len(planted), 20)
                self.assertLessEqual(len(missed), len(planted) // 100, missed)
                self.assertLessEqual(len(planted) - guilty, len(planted) // 100)


if __name__ == "__main__":
    unittest.main()
