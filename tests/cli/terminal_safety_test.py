#!/usr/bin/env python3
"""Names in files steer no terminal: whatever a command prints on one is printable, but for line ends and its own colours. Pipes get csv
as it is, and names with line breaks in the tables of a monitored run are read whole.

usage: terminal_safety_test.py MSPROBE
"""
import csv
import io
import json
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest

from page_tests import has_pages
from terminals import run_on_terminal

MSPROBE = None
# Title of the window, colour, 8-bit control, bidirectional override, zero width, separator of lines, carriage return.
HOSTILE = "a\x1b]0;title\x07b\x1b[31m\x9b1mc\u202ed\u200be\u2028f\rg"
MONITOR_FOLDER = "Nov21_09-58-35-rank0-1a197c9e"


def tensors(path, names, scale=1.0):
    header, data = {}, b""
    for name in names:
        values = struct.pack("<4f", *(scale * value for value in (1, 2, 3, 4)))
        header[name] = {"dtype": "F32", "shape": [4], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def dump(folder, name, value):
    place = os.path.join(folder, "step0", "rank0")
    os.makedirs(place)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": value, "Min": value, "Mean": value, "Norm": value,
              "requires_grad": False}
    call = "Functional.%s.0.forward" % name
    for file, content in (("dump.json", {"task": "statistics", "level": "L1", "dump_data_dir": None, "data": {
            call: {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}}}),
            ("stack.json", {"0": [[call], [name]]}), ("construct.json", {})):
        with open(os.path.join(place, file), "w", encoding="utf-8") as out:
            json.dump(content, out)


def monitored(folder, names, scale=1.0):
    place = os.path.join(folder, MONITOR_FOLDER)
    os.makedirs(place)
    with open(os.path.join(place, "actv_0-9.csv"), "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["vpp_stage", "name", "step", "micro_step", "norm", "shape", "dtype"])
        for step in range(10):
            for name in names:
                rows.writerow([0, name, step, 0, (step + 1) * (scale if step > 4 and name == names[0] else 1), "[2, 4]", "torch.float32"])


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe_terminal_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def piped(self, *arguments):
        run = subprocess.run([MSPROBE] + list(arguments), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr.decode("utf-8", "replace"))
        return run.stdout

    def on_terminal(self, *arguments, shows="a?]0;title?b?[31m?1mc?d?e?f?g"):
        """What a command writes to a terminal; `shows`: how the hostile name stands in it."""
        status, text = run_on_terminal([MSPROBE] + list(arguments), cwd=self.folder,
                                       env=dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm", NO_COLOR="1"))
        self.assertGreaterEqual(status, 0, text)
        text = text.replace("\r\x1b[K", "")  # a line of progress that is wiped off
        self.assertIn(shows, text.replace("\n", ""), arguments)
        for character in text:
            self.assertTrue(character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"),
                            "%r in the output of %s: %r" % (character, arguments, text))
        return text


class Names(Case):
    def test_of_tensors(self):
        tensors(self.path("model.safetensors"), [HOSTILE, "plain"])
        tensors(self.path("other.safetensors"), [HOSTILE, "plain"], 2)
        self.on_terminal("show", "model.safetensors")
        self.on_terminal("ckpt_compare", "model.safetensors", "other.safetensors", "-o", "out")

    def test_of_tensors_as_csv(self):
        tensors(self.path("model.safetensors"), [HOSTILE, "two\nlines"])
        # Control characters are none in csv anywhere; all others are as in the file.
        text = self.on_terminal("show", "model.safetensors", "--format", "csv", shows="a_]0;title_b_[31m_1mc?d?e?f?g")
        self.assertIn('"two\nlines"', text)
        rows = list(csv.reader(io.StringIO(self.piped("show", "model.safetensors", "--format", "csv").decode("utf-8"), newline="")))
        self.assertIn("a_]0;title_b_[31m_1mc\u202ed\u200be\u2028f\rg", [row[0] for row in rows])

    def test_of_calls(self):
        dump(self.path("a"), HOSTILE, 1.0)
        dump(self.path("b"), HOSTILE, 2.0)
        self.on_terminal("show", "a/step0/rank0/dump.json", "--width", "300")
        self.on_terminal("compare", "a", "b", "-o", "out")

    def test_of_files(self):
        name = HOSTILE.replace("/", "_")
        with open(self.path(name), "wb") as file:
            file.write(b"nothing")
        self.on_terminal("show", name)
        self.on_terminal("show", name + ".pt")


class LineBreaks(Case):
    """In quoted names of a monitored run."""

    NAMES = ["layers.0\n" + HOSTILE, 'layers.1 "of two"\r\n,lines', "layers.2"]

    def setUp(self):
        super().setUp()
        monitored(self.path("run"), self.NAMES)
        monitored(self.path("reference"), self.NAMES, 3)

    def test_are_kept_by_csv2db(self):
        self.assertIn(b"30 rows of 3 names", self.piped("monitor", "csv2db", "run", "--db", "out"))
        with sqlite3.connect(self.path("out", "monitor_data.trend.db")) as store:
            names = [row[0] for row in store.execute("select target_name from monitoring_targets")]
        store.close()
        self.assertEqual(sorted(names), sorted(self.NAMES))

    def test_are_found_by_diff(self):
        answer = json.loads(self.piped("monitor", "diff", "run", "reference", "--json"))
        self.assertIn("step 5", answer["verdict"]["text"])
        self.assertEqual(answer["warnings"], [])
        self.on_terminal("monitor", "diff", "run", "reference")

    def test_are_read_by_report(self):
        if not has_pages(MSPROBE):
            self.skipTest("this msprobe was built without its pages; tools/dev/build_web.sh makes them")
        output = self.piped("monitor", "report", "run", "-o", "page.html").decode()
        self.assertIn("30 rows of 3 series", output)
        self.assertNotIn("unterminated", output)


if __name__ == "__main__":
    MSPROBE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=1)
