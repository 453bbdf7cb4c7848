"""`msprobe monitor run -- python3 script.py`: trainings that know nothing of it."""
import json
import os
import shutil
import subprocess
import sys
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from monitor_case import HERE, MonitorCase, Written

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
SCRIPT = os.path.join(HERE, "plain_script.py")
TWO_MODELS = """
import torch
import torch.nn as nn
torch.manual_seed(1)
maker, judge = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), nn.Linear(2, 1)
of_maker = torch.optim.Adam(maker.parameters())
warm = maker(torch.ones(1, 2)).detach()
of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
for step in range(3):
    with torch.no_grad(): judge(warm)
    judge(maker(torch.ones(1, 2)).detach()).sum().backward()
    of_judge.step(); of_judge.zero_grad()
    judge(maker(torch.ones(1, 2))).sum().backward()
    of_maker.step(); of_maker.zero_grad()
"""


class Run(MonitorCase):
    def watch(self, configuration, command, flags=(), exit_code=0):
        folder = self.folder()
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(configuration, file)
        run = subprocess.run([MSPROBE, "monitor", "run", "-c", "config.json", "-o", "out"] + list(flags) + ["--"] + command,
                             cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.output, said = run.stdout.decode(), run.stderr.decode()
        self.assertEqual(run.returncode, exit_code, self.output + said)
        return Written(folder, said)

    def test_an_unmodified_script_is_watched_from_its_first_step_on(self):
        plain = subprocess.run([sys.executable, SCRIPT, "--steps", "3"], cwd=self.folder(), stdout=subprocess.PIPE,
                               check=True, timeout=300).stdout.decode()
        written = self.watch(dict(xy_distribution=True, wg_distribution=True, mv_distribution=True, ops=["norm"]),
                             [sys.executable, SCRIPT, "--steps", "3"])
        self.assertEqual(self.output, plain)
        tables = written.tables()
        for name in ("actv", "actv_grad", "grad_reduced", "grad_unreduced"):
            for step in range(3):
                self.assertIn("%s_%d-%d.csv" % (name, step, step), tables)
        self.assertIn("exp_avg_1-1.csv", tables)
        self.assertIn(".output", written.names("actv_0-0.csv"))

    def plainly(self, *command):
        run = subprocess.run([MSPROBE, "monitor", "run", "-o", "out", "--"] + list(command), cwd=self.folder(), check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        return run.stderr.decode()

    def test_without_a_configuration_the_whole_model_is_watched_and_summed_up(self):
        said = self.plainly(sys.executable, SCRIPT, "--steps", "3")
        self.assertRegex(said, r"no configuration \(--example prints one\): activations, gradients, .*; out\n")
        self.assertRegex(said, r"MONITORED: 1 rank, steps 0 to 2, \d+ tables")
        self.assertRegex(said, r"rows +\d\d+\n +files +\d+, .*\n +alerts +none")
        self.assertIn("msprobe monitor report", said)

    def test_alerts_are_counted(self):
        said = self.plainly(sys.executable, "-c", "import torch\nm = torch.nn.Linear(1, 1)\n"
                            "o = torch.optim.SGD(m.parameters(), lr=0.1)\n"
                            "for step in range(2):\n"
                            "    m(torch.full((1, 1), float('nan'))).sum().backward(); o.step()\n")
        self.assertRegex(said, r"alerts +\d+")
        self.assertIn("msprobe monitor analyse", said)

    def test_where_nothing_was_watched_the_reason_is_given(self):
        self.assertIn("nothing was watched: PyTorch was imported, but no model was called with gradients",
                      self.plainly(sys.executable, "-c", "import torch; torch.nn.Linear(1, 1)(torch.ones(1, 1))"))

    def test_two_models_and_their_optimizers(self):
        written = self.watch(dict(param_distribution=True), [sys.executable, "-c", TWO_MODELS])
        rows = written.rows("param_updated_1-1.csv")
        self.assertEqual(sorted((row["vpp_stage"], row["name"]) for row in rows),
                         [("0", "0.bias"), ("0", "0.weight"), ("0", "1.bias"), ("0", "1.weight"), ("1", "bias"),
                          ("1", "weight")])

    def test_every_process_of_a_distributed_run(self):
        written = self.watch(dict(wg_distribution=True), [sys.executable, SCRIPT, "--processes", "2", "--steps", "2"])
        self.assertEqual(len(written.ranks()), 2)
        self.assertEqual(written.names("grad_reduced_1-1.csv", 0), written.names("grad_reduced_1-1.csv", 1))

    def test_a_script_that_fails_fails_the_same_way(self):
        written = self.watch(dict(wg_distribution=True), [sys.executable, SCRIPT, "--fail"], exit_code=1)
        self.assertIn("RuntimeError: a script that fails", written.said)

    def test_a_script_that_watches_itself_is_left_alone(self):
        code = ("import torch\nfrom msprobe.pytorch import TrainerMon\n"
                "model = torch.nn.Linear(1, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "TrainerMon('config.json').set_monitor(model, optimizer)\n"
                "for step in range(2):\n    model(torch.ones(1, 1)).sum().backward(); optimizer.step()\n")
        written = self.watch(dict(wg_distribution=True), [sys.executable, "-c", code])
        self.assertEqual(len(written.ranks()), 1)

    def test_a_program_without_pytorch_runs_as_ever(self):
        self.watch({}, [sys.executable, "-c", "import sys; print('torch' in sys.modules)"])
        self.assertEqual(self.output, "False\n")

    def test_a_wrong_configuration_is_told_before_anything_runs(self):
        written = self.watch(dict(wg_distribution="yes"), [sys.executable, "-c", "print('ran')"], exit_code=2)
        self.assertIn("wg_distribution", written.said)
        self.assertNotIn("ran", self.output)

    def test_micro_steps_are_told_by_a_flag(self):
        code = ("import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "for step in range(2):\n"
                "    for turn in range(3): model(torch.ones(1, 1)).sum().backward()\n"
                "    optimizer.step()\n")
        written = self.watch(dict(xy_distribution=True), [sys.executable, "-c", code], ["--grad_acc_steps", "3"])
        self.assertEqual([row["micro_step"] for row in written.rows("actv_1-1.csv")], ["0", "0", "1", "1", "2", "2"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
