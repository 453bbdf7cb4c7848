"""Whatever happens to the monitor's files or process, the training goes on and what was written stays readable."""
import csv
import glob
import os
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

from monitor_case import PROLOGUE, MonitorCase, Written

ALL = dict(xy_distribution=True, wg_distribution=True, param_distribution=True, ops=["norm", "mean"])
# Everything up to the last second is promised; a machine under load is granted more.
LOSS_SECONDS_GRANTED = 3.0
TRAINING = """
import resource, time
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
if os.path.exists("config.json") and len(sys.argv) > 1:
    monitor = TrainerMon("config.json")
    monitor.set_monitor(model, optimizer)
if "NO_BYTE" in os.environ:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
times = open(os.environ.get("TIMES", os.devnull), "w")
generator = torch.Generator().manual_seed(7)
for step in range(int(os.environ.get("STEPS", "30"))):
    loss = model(torch.randn(4, 4, generator=generator)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if "TIMES" in os.environ:
        times.write("%d %.6f\\n" % (step, time.monotonic())); times.flush()
        time.sleep(0.005)
print("%.9g" % loss)
"""


class Harm(MonitorCase):
    def expect_same_loss(self, folder=None, wrapper=(), **environment):
        """What the watched run said."""
        plain = self.run_code(TRAINING, ALL)
        folder = folder or self.folder()
        with open(os.path.join(folder, "script.py"), "w", encoding="utf-8") as file:
            file.write(PROLOGUE + TRAINING)
        watched = self.run_script(ALL, list(wrapper) + [sys.executable, "script.py", "watched"], folder=folder,
                                  environment=environment)
        self.assertIn(plain.said.splitlines()[-1], watched.said.splitlines())
        return watched.said

    def mounted(self, folder, options):
        """A command prefix that sees a small file system of its own at out/."""
        place = os.path.join(folder, "out")
        os.mkdir(place)
        mount = "mount -t tmpfs -o %s none %s && exec \"$@\"" % (options, place)
        unshare = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
        for extra in ([], ["--propagation", "unchanged"]):
            prefix = unshare + extra + ["sh", "-c", mount, "sh"]
            probe = subprocess.run(prefix + ["true"], stderr=subprocess.PIPE, text=True)
            if probe.returncode == 0:
                return prefix
        self.skipTest("this user may not mount: " + probe.stderr.strip())

    def test_a_full_disk(self):
        folder = self.folder()
        said = self.expect_same_loss(folder, self.mounted(folder, "size=40k"))
        self.assertIn("No space left", said)
        self.assertLess(said.count("No space left"), 10, said)

    def test_a_read_only_folder(self):
        folder = self.folder()
        said = self.expect_same_loss(folder, self.mounted(folder, "ro"))
        self.assertIn("Read-only file system", said)
        self.assertLess(said.count("Read-only"), 10, said)

    def test_no_byte_may_be_written(self):
        said = self.expect_same_loss(NO_BYTE="1")
        self.assertLess(said.count("File too large"), 10, said)

    def test_two_processes_on_one_output_folder(self):
        folder = self.folder()
        for name in ("one", "two"):
            os.mkdir(os.path.join(folder, name))
        runs = []
        for name in ("one", "two"):
            place = os.path.join(folder, name)
            with open(os.path.join(place, "script.py"), "w", encoding="utf-8") as file:
                file.write(PROLOGUE + TRAINING)
            with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
                file.write('{"wg_distribution": true}')
            runs.append(subprocess.Popen([sys.executable, "script.py", "watched"], cwd=place, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT,
                                         env=dict(os.environ, MONITOR_OUTPUT_DIR=os.path.join(folder, "out"))))
        said = [run.communicate(timeout=200)[0].decode() for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0], said)
        written = Written(folder, "")
        self.assertEqual(len(written.ranks()), 2)
        for path in written.ranks():
            self.assertEqual(len(glob.glob(os.path.join(path, "grad_reduced_*.csv"))), 30)

    def test_a_killed_training_leaves_all_but_its_last_second(self):
        folder = self.folder()
        with open(os.path.join(folder, "script.py"), "w", encoding="utf-8") as file:
            file.write(PROLOGUE + TRAINING)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"wg_distribution": true, "xy_distribution": true}')
        times = os.path.join(folder, "times")
        training = subprocess.Popen([sys.executable, "script.py", "watched"], cwd=folder, stdout=subprocess.DEVNULL,
                                    env=dict(os.environ, MONITOR_OUTPUT_DIR=os.path.join(folder, "out"), TIMES=times,
                                             STEPS="100000"))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (os.path.exists(times) and os.path.getsize(times) > 5000):
            time.sleep(0.05)
        training.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        self.assertEqual(training.wait(), -signal.SIGKILL)
        with open(times, encoding="utf-8") as file:
            steps = [line.split() for line in file if line.endswith("\n")]
        wanted = [int(step) for step, when in steps if float(when) < killed - LOSS_SECONDS_GRANTED]
        written = Written(folder, "")
        tables = written.tables()
        for step in wanted:
            rows = list(csv.DictReader(tables["grad_reduced_%d-%d.csv" % (step, step)].splitlines()))
            self.assertEqual([row["name"] for row in rows], ["0.weight", "0.bias", "2.weight", "2.bias"])
        self.assertGreater(len(tables), 10)


if __name__ == "__main__":
    unittest.main(verbosity=1)
