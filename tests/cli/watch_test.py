#!/usr/bin/env python3
"""`msprobe compare --watch` and Ctrl-C: a dump that grows, a process that is interrupted, and what it answers.

usage: watch_test.py MSPROBE
"""
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

MSPROBE = None


def tensor(value):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 8], "Max": value, "Min": -value, "Mean": value / 3, "Norm": value * 4,
            "requires_grad": False}


def write_step(dump, step, factor=1.0):
    """One rank of a step: two calls, complete."""
    folder = dump / ("step%d" % step) / "rank0"
    folder.mkdir(parents=True)
    data = {"Torch.%s.0.forward" % name: {"input_args": [tensor(1.5)], "input_kwargs": {}, "output": [tensor(value)]}
            for name, value in (("relu", 2.5), ("matmul", 3.5 * factor))}
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}))
    (folder / "manifest.json").write_text(json.dumps({"complete": True}))


class Watch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe_watch_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.errors = ""
        for step in range(3):
            write_step(self.folder / "reference", step)
        (self.folder / "test").mkdir()

    def start(self, *arguments, stdout=subprocess.PIPE):
        process = subprocess.Popen([MSPROBE, "compare", "test", "reference", "--watch", "-o", "out", *arguments], cwd=self.folder, stdout=stdout,
                                   stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C.UTF-8"}, text=True)
        os.set_blocking(process.stderr.fileno(), False)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process

    def wait_for(self, process, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.errors:
            self.assertLess(time.monotonic(), end, "no %r in %s" % (text, self.errors))
            if select.select([process.stderr], [], [], 0.1)[0]:
                self.errors += os.read(process.stderr.fileno(), 65536).decode()

    def answer(self, process):
        with process.stdout as out:
            text = out.read()
        return process.wait(timeout=60), text

    def test_ctrl_c_gives_what_was_compared_so_far(self):
        write_step(self.folder / "test", 0)
        process = self.start()
        self.wait_for(process, "step 0: ")
        write_step(self.folder / "test", 1)
        self.wait_for(process, "step 1: ")
        process.send_signal(signal.SIGINT)
        code, text = self.answer(process)
        self.assertEqual(code, 3, text)
        self.assertEqual(text.splitlines()[0], "IDENTICAL: all 8 compared rows are equal; interrupted after 2 of 3 steps")
        self.wait_for(process, "interrupted: the answer follows; Ctrl-C again ends at once")
        summary = json.loads((self.folder / "out/summary.json").read_text())
        self.assertEqual((summary["exit_code"], summary["verdict"]), (3, "identical"))
        self.assertEqual([(pair["step"], pair["rank"]) for pair in summary["pairs"]], [(0, 0), (1, 0)])

    def test_an_interrupted_watch_never_passes_a_gate(self):
        write_step(self.folder / "test", 0)
        process = self.start("--fail-on", "different", "--json")
        self.wait_for(process, "step 0: ")
        process.send_signal(signal.SIGINT)
        code, text = self.answer(process)
        self.assertEqual(code, 3, text)
        document = json.loads(text)
        self.assertEqual((document["exit_code"], document["verdict"]["word"]), (3, "IDENTICAL"))
        self.assertIn("interrupted after 1 of 3 steps", document["verdict"]["text"])

    def test_ctrl_c_before_the_first_step(self):
        process = self.start("--lang", "zh")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        code, text = self.answer(process)
        if code == -signal.SIGINT:
            self.skipTest("the machine is too slow: it had not begun")
        self.assertEqual(code, 3, text)
        self.assertIn("未能比对：在 step 0 完整之前被中断", text)
        self.assertFalse((self.folder / "out/summary.json").exists())

    def test_the_second_ctrl_c_ends_at_once(self):
        write_step(self.folder / "test", 0)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        # Nobody reads the answer, and the pipe is full: it cannot end by itself.
        flags = fcntl.fcntl(writer, fcntl.F_GETFL)
        fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        fcntl.fcntl(writer, fcntl.F_SETFL, flags)
        process = self.start(stdout=writer)
        os.close(writer)
        self.wait_for(process, "step 0: ")
        process.send_signal(signal.SIGINT)
        self.wait_for(process, "interrupted: ")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), -signal.SIGINT)

    def test_without_ctrl_c_it_ends_at_the_first_step_that_diverges(self):
        write_step(self.folder / "test", 0)
        process = self.start("--fail-on", "different")
        self.wait_for(process, "step 0: ")
        write_step(self.folder / "test", 1, factor=1.5)
        code, text = self.answer(process)
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"^DIFFERENT: output\.0 of Torch\.matmul\.0\.forward is 1\.500 x the reference")


if __name__ == "__main__":
    MSPROBE = Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
