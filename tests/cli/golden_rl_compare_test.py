#!/usr/bin/env python3
"""Compares the two golden runs that SingleSave stored, cell by cell with the Python tool's workbooks.

usage: see golden_cases.py

A case holds run_a, run_b and expected/<key>.xlsx. With --compat every cell must be the Python tool's; without it the same columns
must hold the same values, apart from what docs/commands/rl_compare.md tells: members of dicts and NaN.
"""
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases
import openpyxl

NAN_COLUMNS = (6, 7, 8, 10, 11)  # where it matters whether NaN equals NaN


def cells_of(path):
    return [[cell.value for cell in row] for row in openpyxl.load_workbook(path)["Sheet1"].iter_rows()]


def same(expected, actual):
    if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
        return abs(expected - actual) <= 1e-9 * max(1.0, abs(expected)) and abs(expected - actual) <= 1e-6 * abs(expected)
    return expected == actual


def run(msprobe, case, output, *flags):
    command = [str(msprobe), "rl_compare", "-a", str(case / "run_a"), "-b", str(case / "run_b"), "-o", str(output), "--force"] + list(flags)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)


def run_case(msprobe, case, score):
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        scratch = Path(scratch)
        for threads in ("1", "3"):
            ended = run(msprobe, case, scratch / "compat", "--compat", "--threads", threads)
            score.count(ended.returncode == 0, "exit status %d: %s" % (ended.returncode, ended.stdout.decode()))
            files = sorted(path.name for path in (scratch / "compat").iterdir())
            score.count(files == sorted(path.name for path in case.glob("expected/*.xlsx")), "files %s" % files)
            for path in sorted(case.glob("expected/*.xlsx")):
                expected, actual = cells_of(path), cells_of(scratch / "compat" / path.name)
                score.count(len(expected) == len(actual), "%s: %d rows" % (path.name, len(actual)))
                for number, (row, other) in enumerate(zip(expected, actual)):
                    score.count(len(row) == len(other), "%s row %d: %d cells" % (path.name, number, len(other)))
                    for column, (cell, got) in enumerate(zip(row, other)):
                        score.count(same(cell, got), "%s row %d column %d: %r instead of %r" % (path.name, number, column, got, cell))
        run(msprobe, case, scratch / "own", "-f", "xlsx,csv,json", "--lang", "en")
        for path in sorted(case.glob("expected/*.xlsx")):
            expected, actual = cells_of(path), cells_of(scratch / "own" / path.name)
            rows = {tuple(row[:4]): row for row in actual[1:]}
            for row in expected[1:]:
                place = tuple(row[:3]) + ("b" if path.stem == "d" else row[3],)
                got = rows.get(place, [])
                for column in range(4, len(row)):
                    if path.stem != "reward" or column not in NAN_COLUMNS:
                        score.count(got and same(row[column], got[column]), "%s %s column %d" % (path.name, place, column))
            with open(scratch / "own" / (path.stem + ".csv"), encoding="utf-8-sig", newline="") as file:
                score.count(len(list(csv.reader(file))) == len(actual), "%s.csv has other rows" % path.stem)
            lines = (scratch / "own" / (path.stem + ".jsonl")).read_text().splitlines()
            score.count([json.loads(line)["step"] for line in lines] == [row[0] for row in actual[1:]], "%s.jsonl" % path.stem)
        reward = cells_of(scratch / "own/reward.xlsx")
        score.count(reward[1][6:12] == [100, None, 0, 0, 100, 100] and reward[1][14:17] == [1, 1, 0], "NaN is not NaN: %s" % reward)
        members = {row[3] for row in cells_of(scratch / "own/d.xlsx")[1:]}
        score.count(members == {"a", "b"}, "members of the dict: %s" % members)


if __name__ == "__main__":
    sys.exit(golden_cases.main("rl_compare" if sys.argv[2] != "further" else "nan_analyze", "run_a", run_case))
