"""Whatever happens to a capture, the training goes on, and what was recorded stays readable.

usage: harm_test.py [unittest arguments]     MSPROBE_KILLS: moments at which a capture is killed (default 10)
"""
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
KILLS = int(os.environ.get("MSPROBE_KILLS", "10"))
# A killed process loses what it recorded in its last tenth of a second. A machine under load is granted more here.
LOSS_SECONDS = 0.1
LOSS_SECONDS_GRANTED = 1.0

# Counts its calls, with the time of each, in a file that survives it.
COUNTING = """
import mmap, struct, sys, time
import torch
from msprobe.pytorch import PrecisionDebugger
torch.set_num_threads(1)
debugger = PrecisionDebugger(config_path="config.json")
with open("calls", "r+b") as file:
    calls = mmap.mmap(file.fileno(), 0)
values = torch.rand(64, 64)
debugger.start()
for i in range(len(calls) // 8):
    torch.abs(values)
    struct.pack_into("<d", calls, i * 8, time.monotonic())
"""

# Trains with and without a capture; the last line is the loss.
TRAINING = """
import os, resource, sys
import torch
sys.path.insert(0, {models!r})
from models import TinyGPT
torch.set_num_threads(1)
torch.manual_seed(1)
debugger = None
if os.path.exists("config.json"):
    from msprobe.pytorch import PrecisionDebugger
    debugger = PrecisionDebugger(config_path="config.json")
model = TinyGPT()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(7)
if "NO_BYTE" in os.environ:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
for step in range(4):
    ids = torch.randint(0, 32, (2, 8), generator=generator)
    if debugger:
        debugger.start(model)
    loss = torch.nn.functional.cross_entropy(model(ids).view(-1, 32), ids.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if debugger:
        debugger.stop()
        debugger.step()
print("%.9g" % loss)
"""


def write_config(folder, task, level, **keys):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"), **keys}, file)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_harm_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)


class Killed(Folder):
    """SIGKILL at random moments."""

    def start_counting(self):
        with open(self.path("calls"), "wb") as file:
            file.truncate(8 << 20)
        return subprocess.Popen([sys.executable, "-c", COUNTING], cwd=self.folder, stderr=subprocess.DEVNULL)

    def call_times(self):
        with open(self.path("calls"), "rb") as file:
            data = file.read()
        times = [value for (value,) in struct.iter_unpack("<d", data)]
        return times[:times.index(0.0)] if 0.0 in times else times

    def check_readable(self):
        """Names in the recovered dump; no file under its final name may be half of one."""
        done = subprocess.run([MSPROBE, "dump", "recover", self.path("dump")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        (rank,) = glob.glob(self.path("dump", "step*", "rank*"))
        for name in ("stack.json", "construct.json"):
            with open(os.path.join(rank, name), encoding="utf-8") as file:
                json.load(file)
        with open(os.path.join(rank, "dump.json"), encoding="utf-8") as file:
            data = json.load(file)["data"]
        for path in glob.glob(os.path.join(rank, "dump_tensor_data", "*.pt")):
            self.assertEqual(torch.load(path).shape, (64, 64), path)
        return data

    def kill_once(self, task, wait):
        shutil.rmtree(self.path("dump"), True)
        write_config(self.folder, task, "L1")
        process = self.start_counting()
        while not (os.path.exists(self.path("dump")) and self.call_times()):
            self.assertIsNone(process.poll(), "ended before it was killed")
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        times = self.call_times()
        kept = len(self.check_readable())
        self.assertGreaterEqual(kept, 0)
        lost_seconds = killed - times[kept] if kept < len(times) else 0.0
        self.assertLess(lost_seconds, LOSS_SECONDS_GRANTED, "%d of %d calls are kept" % (kept, len(times)))
        return lost_seconds

    def test_what_was_recorded_is_readable(self):
        chance = random.Random(20)
        worst = 0.0
        for i in range(KILLS):
            task = ("statistics", "tensor")[i % 2]
            with self.subTest(kill=i, task=task):
                worst = max(worst, self.kill_once(task, chance.uniform(0, 0.6)))
        print("\n%d kills: at most the calls of the last %.0f ms are lost (promised: %.0f ms)"
              % (KILLS, worst * 1e3, LOSS_SECONDS * 1e3))

    def test_compare_reads_a_killed_capture_as_it_is(self):
        write_config(self.folder, "statistics", "L1")
        process = self.start_counting()
        while len(self.call_times()) < 200:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        time.sleep(0.3)
        process.kill()
        process.wait()
        done = subprocess.run([MSPROBE, "compare", self.path("dump"), self.path("dump"), "-o", self.path("out")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the capture was interrupted", done.stdout)
        self.assertIn("identical", done.stdout)


class Unwritable(Folder):
    """The disk refuses; the training does not notice."""

    def train(self, *wrapper):
        script = TRAINING.format(models=os.path.dirname(HERE))
        done = subprocess.run(list(wrapper) + [sys.executable, "-c", script], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()[-1], done.stderr

    def expect_same_loss(self, *wrapper):
        """Returns what the captured run said on stderr."""
        for name in ("config.json",):
            if os.path.exists(self.path(name)):
                os.rename(self.path(name), self.path("later"))
        expected, _ = self.train()
        os.rename(self.path("later"), self.path("config.json"))
        loss, messages = self.train(*wrapper)
        self.assertEqual(loss, expected)
        return messages

    def mounted(self, options):
        """A command prefix that sees a small file system of its own at dump/."""
        os.mkdir(self.path("dump"))
        mount = "mount -t tmpfs -o %s none %s && exec \"$@\"" % (options, self.path("dump"))
        unshare = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
        # The second form is for a root that is no mount point of its own: a chroot.
        for extra in ([], ["--propagation", "unchanged"]):
            prefix = unshare + extra + ["sh", "-c", mount, "sh"]
            probe = subprocess.run(prefix + ["true"], stderr=subprocess.PIPE, text=True)
            if probe.returncode == 0:
                return prefix
        self.skipTest("this user may not mount: " + probe.stderr.strip())

    def test_a_full_disk(self):
        for task in ("tensor", "statistics"):
            with self.subTest(task=task):
                shutil.rmtree(self.path("dump"), True)
                write_config(self.folder, task, "mix")
                messages = self.expect_same_loss(*self.mounted("size=200k"))
                self.assertIn("No space left", messages)
                self.assertLess(messages.count("No space left"), 10, messages)

    def test_a_read_only_folder(self):
        write_config(self.folder, "tensor", "mix")
        messages = self.expect_same_loss(*self.mounted("ro"))
        self.assertIn("Read-only file system", messages)
        self.assertLess(messages.count("Read-only"), 10, messages)

    def test_no_byte_may_be_written(self):
        write_config(self.folder, "tensor", "mix")
        messages = self.expect_same_loss("env", "NO_BYTE=1")
        self.assertIn("File too large", messages)
        self.assertLess(messages.count("File too large"), 10, messages)

    def test_the_dump_vanishes_under_the_capture(self):
        write_config(self.folder, "tensor", "mix")
        remover = subprocess.Popen(["sh", "-c", "while :; do rm -rf dump/step*/rank/dump_tensor_data; done"],
                                   cwd=self.folder, stderr=subprocess.DEVNULL)
        try:
            self.expect_same_loss()
        finally:
            remover.kill()
            remover.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)
