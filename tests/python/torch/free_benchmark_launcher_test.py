"""`msprobe free_benchmark -c CONFIG -- python3 script.py`, and what a killed run leaves."""
import csv
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "plain_script.py")
MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
COLUMNS = ["rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"]


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        return header, list(reader)


class Launched(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_twice_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def configure(self, **section):
        with open(self.path("config.json"), "w") as file:
            json.dump({"task": "free_benchmark", "dump_path": "./out", "free_benchmark": section}, file)

    def msprobe(self, *arguments, **options):
        run = subprocess.run([MSPROBE] + list(arguments), cwd=self.folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=300)
        output = run.stdout.decode(), run.stderr.decode()
        self.assertEqual(run.returncode, options.get("exit", 0), "\n".join(output))
        return output

    def plain(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT] + list(arguments), cwd=self.folder, check=True,
                              stdout=subprocess.PIPE, timeout=300).stdout.decode()

    def test_where_nothing_can_be_changed_the_way_out_is_named(self):
        with open(self.path("script.py"), "w") as file:
            file.write("import sys, torch\nx = torch.ones(4, dtype=getattr(torch, sys.argv[1]), requires_grad=False)\n"
                       "m = torch.nn.Linear(4, 4).to(x.dtype) if x.is_floating_point() else None\n"
                       "print(torch.add(m(x), x) if m else torch.add(x, x))\n")
        told = {}
        for mode, dtype in (("improve_precision", "float32"), ("improve_precision", "float64"), ("improve_precision", "bfloat16"),
                            ("add_noise", "float32"), ("add_noise", "int64")):
            self.configure(pert_mode=mode, list=["linear", "add"])
            _, text = self.msprobe("free_benchmark", "-c", "config.json", "--", sys.executable, "script.py", dtype)
            told[mode, dtype] = [line for line in text.splitlines() if "checked nothing" in line]
        for mode, dtype in (("improve_precision", "float32"), ("improve_precision", "float64")):
            self.assertEqual(len(told[mode, dtype]), 1, told)
            self.assertIn("add_noise", told[mode, dtype][0])
        self.assertEqual(told["improve_precision", "bfloat16"], [])
        self.assertEqual(told["add_noise", "float32"], [])

    def test_an_unmodified_script_is_checked_and_goes_its_way(self):
        self.configure(pert_mode="change_value", list=["softmax", "embedding"])
        output, told = self.msprobe("free_benchmark", "-c", "config.json", "--", sys.executable, SCRIPT,
                                    "--steps", "2")
        self.assertEqual(output, self.plain("--steps", "2"))
        self.assertRegex(told, r"free_benchmark: UNSTABLE: [1-9]\d* calls checked, [1-9]")
        self.assertRegex(told, r"msprobe: UNSTABLE: \d+ functions?, most of all ")
        self.assertRegex(told, r"msprobe show \S+ ranks the functions")
        header, rows = rows_of(self.path("out", "step1", "rank", "free_benchmark.csv"))
        self.assertEqual(header, COLUMNS)
        self.assertEqual({row[3] for row in rows}, {"1"})
        self.assertTrue(any("softmax" in row[4] for row in rows), rows)
        shown, _ = self.msprobe("show", "out")
        self.assertRegex(shown, r"out: \d+ functions? (is|are) unstable, most of all ")
        self.assertIn("softmax", shown)

    def test_gradients_of_an_unmodified_script_are_checked(self):
        self.configure(pert_mode="no_change", fuzz_stage="backward", list=["linear", "matmul"])
        output, told = self.msprobe("free_benchmark", "-c", "config.json", "--", sys.executable, SCRIPT)
        self.assertEqual(output, self.plain())
        self.assertRegex(told, r"free_benchmark: STABLE: [1-9]\d* calls checked, 0 unstable")
        self.assertNotIn("UNSTABLE", told)
        self.assertFalse(os.path.exists(self.path("out", "step0", "rank", "free_benchmark.csv")))

    def test_the_exit_code_is_the_script_s(self):
        self.configure(pert_mode="no_change")
        self.msprobe("free_benchmark", "-c", "config.json", "--", sys.executable, SCRIPT, "--fail", exit=1)

    def test_a_killed_run_leaves_every_row_that_it_found(self):
        self.configure(pert_mode="change_value", list=["Torch.exp"])
        with open(self.path("script.py"), "w") as file:
            file.write(textwrap.dedent("""
                import time, torch
                from msprobe.pytorch import PrecisionDebugger
                debugger = PrecisionDebugger("config.json")
                debugger.start()
                for number in range(10 ** 6):
                    torch.exp(torch.tensor([0.5, 9.0]))
                    print(number, flush=True)
            """))
        process = subprocess.Popen([sys.executable, "script.py"], cwd=self.folder, stdout=subprocess.PIPE)
        for _ in range(25):
            made = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            if line.endswith(b"\n"):
                made = int(line)
        process.stdout.close()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        header, rows = rows_of(self.path("out", "step0", "rank", "free_benchmark.csv"))
        self.assertEqual(header, COLUMNS)
        self.assertGreaterEqual(len(rows), made + 1)  # of all calls that had returned
        self.assertTrue(all(len(row) == len(COLUMNS) for row in rows))
        shown, _ = self.msprobe("show", "out")
        self.assertIn("Torch.exp", shown)

    def test_ranks_of_a_distributed_run_have_tables_of_their_own(self):
        self.configure(pert_mode="change_value", list=["softmax"])
        self.msprobe("free_benchmark", "-c", "config.json", "--", sys.executable, SCRIPT, "--processes", "2")
        tables = sorted(glob.glob(self.path("out", "step0", "rank*", "free_benchmark.csv")))
        self.assertEqual([os.path.basename(os.path.dirname(table)) for table in tables], ["rank0", "rank1"])
        self.assertEqual([{row[0] for row in rows_of(table)[1]} for table in tables], [{"0"}, {"1"}])


if __name__ == "__main__":
    unittest.main()
