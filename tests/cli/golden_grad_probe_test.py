#!/usr/bin/env python3
"""Compares the golden pair of gradient directions: similarities.csv must be the Python tool's, byte by byte.

usage: see golden_cases.py

A case holds two folders of the task grad_probe, a and b, and expected/similarities.csv.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases


def run_case(msprobe, case, score):
    expected = (case / "expected/similarities.csv").read_bytes()
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        for threads in ("1", "3"):
            output = Path(scratch) / threads
            ended = subprocess.run([str(msprobe), "grad_compare", str(case / "a"), str(case / "b"), "-o", str(output), "--threads", threads, "-q"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
            score.count(ended.returncode == 0, "exit status %d: %s" % (ended.returncode, ended.stdout.decode()))
            written = output / "rank0/similarities.csv"
            lines = written.read_bytes().split(b"\n") if written.is_file() else []
            for number, line in enumerate(expected.split(b"\n")):
                got = lines[number] if number < len(lines) else b""
                score.count(line == got, "line %d: %r instead of %r" % (number + 1, got, line))
            score.count(len(lines) == len(expected.split(b"\n")), "%d lines" % len(lines))


if __name__ == "__main__":
    sys.exit(golden_cases.main("grad_probe", "a", run_case))
