#!/usr/bin/env python3
"""`msprobe monitor top` on a pseudo terminal: what it shows, which keys it knows, and how it leaves the terminal.

usage: monitor_top_test.py MSPROBE
"""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import monitor_data  # noqa: E402

MSPROBE = None
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, *arguments, rows=30, columns=110, environment=None):
        self.master, slave = pty.openpty()
        self.resize(rows, columns, slave)
        self.modes = termios.tcgetattr(slave)
        self.slave = slave
        settings = dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm-256color", **(environment or {}))
        settings = {key: value for key, value in settings.items() if value is not None}
        self.process = subprocess.Popen([MSPROBE, "monitor", "top", *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave,
                                        env=settings, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        self.output = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character

    def resize(self, rows, columns, descriptor=None):
        fcntl.ioctl(self.master if descriptor is None else descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if descriptor is None:
            self.process.send_signal(signal.SIGWINCH)

    def pump(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.output += self.decoder.decode(os.read(self.master, 65536))
            except OSError:
                return

    def wait_for(self, pattern, seconds=20):
        """Reads until a picture drawn from now on has the pattern; returns that picture."""
        begin = len(self.output)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for picture in self.output[begin:].split("\x1b[H")[1:]:
                if "\x1b[J" in picture and re.search(pattern, picture):
                    return picture
            self.pump(0.1)
        raise AssertionError("no %r within %d s in:\n%s" % (pattern, seconds, self.output[-3000:]))

    def type(self, keys):
        os.write(self.master, keys.encode())

    def end(self, seconds=20):
        """The exit code once it has ended by itself; everything it wrote is in `output`."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.pump(0.1)
        code = self.process.wait(timeout=1)
        self.pump(0.2)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Top(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe_top_")
        self.addCleanup(folder.cleanup)
        self.run_folder = Path(folder.name) / "run"
        monitor_data.Run(modules=10, steps=40, ranks=2, drift=(3, 35), poison=(7, 1, 38)).write(self.run_folder)

    def screen(self, *arguments, **options):
        screen = Screen(self.run_folder, "--interval", "0.2", *arguments, **options)
        self.addCleanup(screen.close)
        return screen

    def once(self, *arguments, environment=None):
        run = subprocess.run([MSPROBE, "monitor", "top", self.run_folder, "--once", *arguments], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})}, check=False)
        return run.returncode, run.stdout.decode()

    def grow(self, step, rank=0, name="layers.0.mlp.fc1", value="1.0"):
        with open(next(self.run_folder.glob("*rank%d*" % rank)) / "actv_0-39.csv", "a") as out:
            out.write('0,%s.output,%d,0,%s,-1.0,1.0,0.0,0.0,0,"[2, 4]",torch.float32\n' % (name, step, value))

    def test_prints_one_picture_as_plain_text(self):
        code, text = self.once("--lines", "0")
        self.assertEqual(code, 0, text)
        self.assertNotIn("\x1b", text)
        self.assertRegex(text.splitlines()[0], r"step 39 .* 2 ranks  2 alerts  8 NaN/Inf$")
        modules = [line.split()[0] for line in text.split("module")[1].splitlines()[1:] if line.startswith("  layers.")]
        self.assertEqual(modules[0], "layers.1.mlp.fc1.output")  # NaN since step 38
        self.assertEqual(set(modules[1:3]), {"layers.0.mlp.fc2.output", "layers.0.mlp.fc2.weight"})  # the drift
        self.assertIn("@38", text)
        self.assertIn("Rule AnomalyTurbulence", text)

    def test_a_pipe_gets_plain_text_without_being_asked(self):
        run = subprocess.run([MSPROBE, "monitor", "top", self.run_folder], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
        self.assertNotIn(b"\x1b", run.stdout)

    def test_plain_letters_where_the_locale_has_no_blocks(self):
        text = self.once(environment={"LC_ALL": "C"})[1]
        self.assertTrue(text.isascii(), text)

    def test_narrows_to_a_table_and_words(self):
        text = self.once("--table", "grad_reduced", "--search", "layers.1 dense", "--lines", "0")[1]
        self.assertEqual(re.findall(r"^  (layers\S+)", text, re.M), ["layers.1.attention.dense.weight"])

    def test_says_what_it_does_not_find(self):
        run = subprocess.run([MSPROBE, "monitor", "top", "/nowhere", "--once"], stderr=subprocess.PIPE, check=False)
        self.assertEqual(run.returncode, 3)
        self.assertIn(b"/nowhere", run.stderr)
        code, text = self.once("--statistic", "norms")
        self.assertEqual(code, 3)
        self.assertIn('no statistic "norms"', text)

    def test_follows_what_grows(self):
        screen = self.screen()
        screen.wait_for(r"step 39 ")
        self.grow(40)
        screen.wait_for(r"step 40 ")
        self.grow(41, rank=1, value="nan")
        picture = screen.wait_for(r"step 41 .* 9 NaN/Inf")
        self.assertIn("q quit", picture)
        new = self.run_folder / "Nov21_09-58-35-rank2-aaaaaaaa"
        new.mkdir()
        (new / "actv_0-0.csv").write_text("vpp_stage,name,step,micro_step,norm\n0,late.output,50,0,1.0\n")
        screen.wait_for(r"step 50 .* 3 ranks")
        screen.type("q")
        self.assertEqual(screen.end(), 0)

    def test_leaves_the_terminal_as_it_was(self):
        for how in ("q", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(how=how):
                screen = self.screen()
                screen.wait_for(r"q quit")
                self.assertNotEqual(termios.tcgetattr(screen.slave)[3], screen.modes[3])
                if isinstance(how, str):
                    screen.type(how)
                else:
                    screen.process.send_signal(how)
                self.assertEqual(screen.end(), 0)
                self.assertEqual(termios.tcgetattr(screen.slave), screen.modes)
                self.assertEqual(screen.output.count(ENTER), 1)
                self.assertTrue(screen.output.rstrip().endswith(LEAVE), screen.output[-100:])
                self.assertIn("\x1b[?25h", screen.output[screen.output.rindex("\x1b[H"):])  # the cursor is back

    def test_fits_the_terminal_when_its_size_changes(self):
        screen = self.screen(rows=40, columns=120)
        wide = screen.wait_for(r"q quit")
        self.assertLessEqual(wide.count("\r\n"), 39)
        screen.resize(12, 60)
        narrow = screen.wait_for(r"step 39")
        lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in narrow.replace("\r", "").split("\n")]
        self.assertLessEqual(len(lines), 12)
        self.assertLessEqual(max(map(len, lines)), 60)

    def test_shows_the_most_important_columns_of_each_width(self):
        columns = {60: ["module", "rank", "step", "value", "score"], 80: ["module", "table", "rank", "step", "value", "score", "history"],
                   120: ["module", "table", "rank", "step", "value", "score", "history"]}
        numbers = {}  # of each module, at the widest
        for width in (120, 80, 60):
            with self.subTest(width=width):
                screen = self.screen(rows=40, columns=width)
                picture = screen.wait_for(r"q quit")
                lines = [line.rstrip("\r") for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", picture).split("\n")]
                screen.type("q")
                self.assertEqual(screen.end(), 0)
                self.assertLessEqual(max(map(len, lines)), width, max(lines, key=len))
                self.assertRegex(lines[0], r"step 39 .*2 alerts  8 NaN/Inf$")
                ranks = lines.index(next(line for line in lines if line.split()[:2] == ["rank", "step"]))
                self.assertRegex(lines[ranks + 2], r"^ +1 +39 .* 8$")
                head = lines.index(next(line for line in lines if line.startswith("  module ")))
                self.assertEqual([word.replace("norm", "value") for word in lines[head].split()], columns[width])
                for row in lines[head + 1 : lines.index("", head)]:
                    words = row.split()
                    self.assertTrue(words[0].startswith(("layers.", "...")), row)
                    self.assertNotRegex(words[0], r"^\.\.\.\.?$")
                    step, value, score = words[columns[width].index("step") :][:3]
                    self.assertEqual(step, "39")
                    self.assertRegex(value, r"^(NaN|-?\d+(\.\d+)?(e[-+]\d+)?)$")
                    self.assertRegex(score, r"^(@38|\d+\.\d)$")
                    numbers.setdefault(width, []).append((value, score))
        most = min(map(len, numbers.values()))
        self.assertGreaterEqual(most, 10)
        self.assertEqual(numbers[60][:most], numbers[120][:most])
        self.assertEqual(numbers[80][:most], numbers[120][:most])

    def test_keys_change_what_is_shown(self):
        screen = self.screen(rows=40)
        screen.wait_for(r"table all, statistic norm")
        screen.type("t")
        picture = screen.wait_for(r"table (actv|grad_reduced), ")
        screen.type("o")
        screen.wait_for(r"statistic min")
        screen.type("/layers.1\r")
        picture = screen.wait_for(r"search: layers\.1[^_]")
        self.assertNotIn("layers.0", picture.partition("newest alerts")[0])
        screen.type("p")
        screen.wait_for(r"paused")
        self.grow(77)
        time.sleep(0.6)
        screen.type("p")
        screen.wait_for(r"step 77 ")
        screen.type("q")
        self.assertEqual(screen.end(), 0)

    def test_a_question_mark_explains_keys_and_columns(self):
        screen = self.screen(rows=40)
        screen.wait_for(r"\? help")
        screen.type("?")
        picture = screen.wait_for(r"any key: back")
        self.assertRegex(picture, r"p pause")
        self.assertRegex(picture, r"Score: distance")
        screen.type("x")
        screen.wait_for(r"newest alerts")
        screen.type("q")
        self.assertEqual(screen.end(), 0)

    def test_stops_and_goes_on_with_the_shell(self):
        screen = self.screen()
        screen.wait_for(r"q quit")
        screen.process.send_signal(signal.SIGTSTP)
        end = time.monotonic() + 20
        while LEAVE not in screen.output and time.monotonic() < end:
            screen.pump(0.1)
        self.assertIn(LEAVE, screen.output)
        time.sleep(0.2)
        self.assertEqual(termios.tcgetattr(screen.slave), screen.modes)
        screen.process.send_signal(signal.SIGCONT)
        screen.wait_for(r"q quit")
        self.assertEqual(screen.output.count(ENTER), 2)
        screen.type("q")
        self.assertEqual(screen.end(), 0)

    def test_colours_unless_told_not_to(self):
        coloured = self.screen(environment={"NO_COLOR": None})
        self.assertRegex(coloured.wait_for(r"q quit"), "\x1b\\[1;31m[^\x1b]*layers.1.mlp.fc1.output")
        plain = self.screen(environment={"NO_COLOR": "1"})
        self.assertNotRegex(plain.wait_for(r"q quit"), "\x1b\\[[0-9;]*m")


if __name__ == "__main__":
    MSPROBE = Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
