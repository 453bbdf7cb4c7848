#!/usr/bin/env python3
"""A program in C captures, is killed, and what it left is recovered: two builds of the library and the program write the same bytes.

usage: capture_files_test.py BUILD OTHER_BUILD [EMULATOR WORD...]

The program is capture_program.c; OTHER_BUILD's is run by the words of the emulator where there are some. With the same build twice it
must write the same bytes again.
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import differences

BUILDS, EMULATOR = [], []
SETTINGS = [
    {"task": "statistics"},
    {"task": "statistics", "summary_mode": "md5"},
    {"task": "statistics", "summary_mode": "xor"},
    {"task": "statistics", "precision": "low", "extended_statistics": True},
    {"task": "tensor"},
    {"task": "statistics", "async_dump": True, "strict_json": True},
    {"task": "overflow_check", "overflow_nums": -1},
]
# How long it took, and which process of which run it was.
OWN_TO_A_RUN = re.compile(rb'"(\w+_seconds|process_id|process|run)": ?("[^"]*"|[0-9.e-]+)')


def without_what_is_its_own(name, data):
    if name.endswith("records.log"):  # the first record names the process: magic, length, checksum, kind, text
        length, = struct.unpack_from("<I", data, 8)
        return data[17 + length:]
    return OWN_TO_A_RUN.sub(b'"own": 0', data)


class CaptureFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe_capture_files_")
        self.addCleanup(folder.cleanup)
        self.place = Path(folder.name) / "run"

    def run_side(self, side, words, expected):
        """(what it said, {name: bytes} of what it wrote); always in the same folder."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        said = self.call(side, words, expected)
        return said, self.files()

    def call(self, side, words, expected=0):
        command = (EMULATOR if side else []) + [str(BUILDS[side] / "bin" / words[0])] + words[1:]
        environment = dict(os.environ, LC_ALL="C.UTF-8", MONITOR_OUTPUT_DIR="monitor")
        run = subprocess.run(command, cwd=self.place, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(run.returncode, expected, run.stderr.decode())
        return run.stdout

    def files(self):
        return {re.sub(r"[\w-]+-rank0-\w+", "rank0", str(path.relative_to(self.place))): path.read_bytes()
                for path in sorted(self.place.rglob("*")) if path.is_file()}

    def require_equal(self, first, second, about):
        self.assertEqual(first[0], second[0], about)
        self.assertEqual(sorted(first[1]), sorted(second[1]), about)
        self.assertTrue(first[1])
        for name in first[1]:
            data, other = (without_what_is_its_own(name, item[1][name]) for item in (first, second))
            with self.subTest(about=about, file=name):
                self.assertIsNone(differences.between(name, data, other))
        print("%s: %d files, %d bytes, and %d bytes of text" % (about, len(first[1]), sum(map(len, first[1].values())), len(first[0])))

    def test_what_is_captured_and_watched(self):
        for settings in SETTINGS:
            words = ["capture_program", json.dumps(dict(settings, dump_path="dump"))]
            self.require_equal(*(self.run_side(side, words, 0) for side in range(2)), json.dumps(settings))

    def test_what_a_kill_leaves_and_recover_makes_of_it(self):
        for settings in (SETTINGS[0], SETTINGS[4]):
            words = ["capture_program", json.dumps(dict(settings, dump_path="dump")), "kill"]
            ended = []
            for side in range(2):
                left = self.run_side(side, words, -signal.SIGKILL)[1]
                self.assertTrue([name for name in left if name.endswith("records.log")], sorted(left)[:20])
                said = self.call(side, ["msprobe", "dump", "recover", "dump"])
                ended.append((differences.mask_text(said), self.files()))
            self.require_equal(*ended, "killed and recovered, " + json.dumps(settings))


if __name__ == "__main__":
    BUILDS, EMULATOR = [Path(word).resolve() for word in sys.argv[1:3]], sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
