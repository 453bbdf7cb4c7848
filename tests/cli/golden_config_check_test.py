#!/usr/bin/env python3
"""Runs golden cases of config_check and compares their workbooks cell by cell.

usage: golden_config_check_test.py MSPROBE CASES_FOLDER [CASE...]
       golden_config_check_test.py MSPROBE further   the cases of $MSPROBE_GOLDEN/config_check (default ../shared/golden/config_check)

What a case folder holds is told in tests/data/config_check/README.md. Every sheet name, header cell and data cell counts; kinds of
cells (boolean, number, text) count where the CSV can tell them apart. Also checked: no formulas, a bold header, the extracted packs,
and that result.json holds the same rows. Exit status 77 (skipped) when CASES_FOLDER does not exist.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import openpyxl

UNORDERED = {"dataset": 2, "weights": 2, "random": 0}  # sheet -> leading columns whose order counts
SKIPPED = 77


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
    def __init__(self, msprobe, folder):
        self.msprobe = msprobe
        self.folder = folder
        self.findings = []
        self.cells = 0
        self.agree = 0

    def expect(self, good, finding):
        self.cells += 1
        if good:
            self.agree += 1
        else:
            self.findings.append(finding)

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
        print("%-24s %5d of %5d agree" % (self.folder.name, self.agree, self.cells))
        for finding in self.findings[:20]:
            print("    " + finding.replace("\n", "\\n"))

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


def main():
    msprobe, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    if sys.argv[2] == "further":
        repository = Path(__file__).resolve().parents[2]
        folder = Path(os.environ.get("MSPROBE_GOLDEN") or repository.parent / "shared/golden") / "config_check"
    if not folder.is_dir():
        print("no folder %s: skipped" % folder)
        return SKIPPED
    wanted = sys.argv[3:]
    cases = [Case(msprobe, path.parent) for path in sorted(folder.glob("*/bench.zip")) if not wanted or path.parent.name in wanted]
    for case in cases:
        case.run()
    agree, total = sum(case.agree for case in cases), sum(case.cells for case in cases)
    print("golden config_check: %d of %d agree in %d cases" % (agree, total, len(cases)))
    return 0 if cases and agree == total else 1


if __name__ == "__main__":
    sys.exit(main())
