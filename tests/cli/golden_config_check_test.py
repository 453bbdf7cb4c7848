#!/usr/bin/env python3
"""Runs golden cases of config_check and compares their workbooks cell by cell.

usage: see golden_cases.py

What a case folder holds is told in tests/data/config_check/README.md. Every sheet name, header cell and data cell counts; kinds of
cells (boolean, number, text) count where the CSV can tell them apart. Also checked: no formulas, a bold header, the extracted packs,
and that result.json holds the same rows.
"""
import csv
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import golden_cases
import openpyxl

UNORDERED = {"dataset": 2, "weights": 2, "random": 0}  # sheet -> leading columns whose order counts


def cell_text(value):
    """A cell as the expected CSV spells it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value) if isinstance(value, float) else str(value)


def read_sheet(sheet):
    return [[cell_text(cell.value) for cell in row] for row in sheet.iter_rows()]


def pad(rows):
    width = max((len(row) for row in rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows]


class Case:
    def __init__(self, msprobe, folder, score):
        self.msprobe = msprobe
        self.folder = folder
        self.expect = score.count

    def compare_sheet(self, name, expected, actual):
        expected, actual = pad(expected), pad(actual)
        self.expect(actual[:1] == expected[:1], "%s: header %s" % (name, actual[:1]))
        rows, got = expected[1:], actual[1:]
        self.expect(len(rows) == len(got), "%s: %d rows instead of %d" % (name, len(got), len(rows)))
        if name in UNORDERED:
            leading = UNORDERED[name]
            order = [row[:leading] for row in rows]
            self.expect([row[:leading] for row in got] == order, "%s: steps and ranks in another order" % name)
            rows, got = sorted(rows), sorted(got)
        for number, (want, have) in enumerate(zip(rows, got)):
            for column, cell in enumerate(want):
                self.expect(cell == have[column], "%s row %d %s: expected %r, got %r" %
                            (name, number, expected[0][column], cell, have[column]))

    def check_styles(self, sheet):
        for row in sheet.iter_rows():
            for cell in row:
                self.expect(cell.data_type != "f", "%s %s is a formula" % (sheet.title, cell.coordinate))
        for cell in sheet[1]:
            self.expect(cell.font.b and cell.alignment.horizontal == "center" and cell.border.top.style is not None,
                        "%s header %s is not styled" % (sheet.title, cell.coordinate))

    def check_extracted(self, pack, folder):
        with zipfile.ZipFile(pack) as archive:
            for member in archive.namelist():
                path = folder / member
                self.expect(path.is_file() and path.read_bytes() == archive.read(member), "%s is not extracted" % path)

    def check_json(self, result, sheets):
        checks = {check["check"]: check for check in result["checks"]}
        self.expect(list(checks) == sheets[1:], "result.json has checks %s" % list(checks))

    def run(self):
        with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
            output = Path(scratch).resolve() / "result"
            run = subprocess.run([str(self.msprobe), "-f", "pytorch", "config_check", "-c", str(self.folder / "bench.zip"),
                                  str(self.folder / "cmp.zip"), "-o", str(output), "--format", "xlsx,json"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
            self.expect(run.returncode == 0, "exit status %d: %s" % (run.returncode, run.stdout.decode(errors="replace")))
            if run.returncode == 0:
                self.check_result(output)

    def check_result(self, output):
        self.expect({path.name for path in output.iterdir()} == {"bench", "cmp", "result.xlsx", "result.json"},
                    "the folder holds %s" % sorted(path.name for path in output.iterdir()))
        workbook = openpyxl.load_workbook(output / "result.xlsx")
        sheets = json.loads((self.folder / "expected/sheets.json").read_text())
        self.expect(workbook.sheetnames == sheets, "sheets %s instead of %s" % (workbook.sheetnames, sheets))
        for name in sheets:
            if name not in workbook.sheetnames:
                continue
            with open(self.folder / "expected" / (name + ".csv"), newline="", encoding="utf-8") as stream:
                expected = list(csv.reader(stream))
            self.compare_sheet(name, expected, read_sheet(workbook[name]))
            self.check_styles(workbook[name])
        for side in ("bench", "cmp"):
            self.check_extracted(self.folder / (side + ".zip"), output / side)
        self.check_json(json.loads((output / "result.json").read_text()), sheets)


def run_case(msprobe, case, score):
    Case(msprobe, case, score).run()


if __name__ == "__main__":
    sys.exit(golden_cases.main("config_check", "bench.zip", run_case))
