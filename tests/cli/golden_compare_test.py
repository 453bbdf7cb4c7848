#!/usr/bin/env python3
"""Runs golden cases of compare and merge_result and scores their result tables cell by cell.

usage: see golden_cases.py

What a case folder holds is told in tests/data/compare/README.md. Every header cell, data cell, row position and row colour,
the exit status and the first two lines of an advisor text count one each.
Numbers (also "12.5%") agree within 1e-4 relative or 2e-12 absolute; of Err_message only being empty or not counts; all else is
equal text apart from blanks at the ends. Workbooks are read with openpyxl.
"""
import csv
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict, deque
from pathlib import Path

import golden_cases
import openpyxl

STAMP = re.compile(r"_\d{14}(?=\.)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FILLS = {"FF0000": "red", "FFFF00": "yellow"}


def cell_text(value):
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def fill_name(cell):
    if cell.fill is None or cell.fill.fill_type != "solid":
        return ""
    color = cell.fill.start_color.rgb
    return FILLS.get(color[-6:], color)


def read_workbook(path, say):
    """{sheet title: rows of texts}, the row's fill appended as the last column."""
    sheets = {}
    for sheet in openpyxl.load_workbook(path).worksheets:
        rows = []
        for number, cells in enumerate(sheet.iter_rows()):
            fills = {fill_name(cell) for cell in cells}
            if number > 0 and len(fills) > 1:
                say("%s row %d has several fills: %s" % (path.name, number, sorted(fills)))
            if any(cell.data_type == "f" for cell in cells):
                say("%s row %d holds a formula" % (path.name, number))
            rows.append([cell_text(cell.value) for cell in cells] + ["highlight" if number == 0 else fill_name(cells[0])])
        sheets[sheet.title] = rows
    return sheets


def read_csv(path):
    with open(path, newline="", encoding="utf-8-sig") as stream:
        return list(csv.reader(stream))


def results_of(folder, say):
    """{name without time stamp: rows or lines} of everything a run wrote."""
    results = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = STAMP.sub("", str(path.relative_to(folder)))
        if path.suffix == ".xlsx":
            sheets = read_workbook(path, say)
            for title, rows in sheets.items():
                middle = "" if len(sheets) == 1 else "." + title.replace(" ", "_")
                results[name[:-len(".xlsx")] + middle + ".csv"] = rows
        elif path.suffix == ".csv":
            results[name] = read_csv(path)
        elif path.name.startswith("advisor"):
            results[name] = path.read_text(encoding="utf-8").splitlines()
    return results


def as_number(text):
    text = text[:-1] if text.endswith("%") else text
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def same_cell(header, expected, actual):
    expected, actual = expected.strip(), actual.strip()
    if header.lower() == "err_message":
        return (expected == "") == (actual == "")
    if expected == actual:
        return True
    a, b = as_number(expected), as_number(actual)
    if a is None or b is None or expected.endswith("%") != actual.endswith("%"):
        return False
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= max(1e-4 * abs(a), 2e-12)


def row_key(row):
    """The NPU name, or the bench name of rows that have only a bench side."""
    return (row[0], row[1] if row[0] in ("", "N/A") and len(row) > 1 else "")


def score_table(score, name, expected, actual):
    headers = expected[0]
    got_headers = actual[0] if actual else []
    for i, header in enumerate(headers):
        got = got_headers[i] if i < len(got_headers) else None
        score.count(got == header or (header == "highlight" and bool(actual)),
                    "%s header %d: expected %r, got %r" % (name, i, header, got))
    columns = {}
    for i, header in enumerate(got_headers):
        columns.setdefault(header, i)
    places = defaultdict(deque)
    for i, row in enumerate(actual[1:]):
        places[row_key(row)].append(i)
    for i, row in enumerate(expected[1:]):
        queue = places[row_key(row)]
        if not queue:
            score.count(False, "%s row %d (%s) is missing" % (name, i, row[0]), weight=len(headers) + 1)
            continue
        at = queue.popleft()
        score.count(at == i, "%s row %d (%s) stands at %d" % (name, i, row[0], at))
        got = actual[1 + at]
        for k, header in enumerate(headers):
            column = columns.get(header)
            value = got[column] if column is not None and column < len(got) else None
            score.count(value is not None and same_cell(header, row[k], value),
                        "%s row %d (%s) %s: expected %r, got %r" % (name, i, row[0], header, row[k][:120], value))
    for queue in places.values():
        for at in queue:
            score.count(False, "%s row %d (%s) is too much" % (name, at, actual[1 + at][0]))


def run_case(msprobe, case, score):
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        work = Path(scratch).resolve() / case.name
        shutil.copytree(case, work, ignore=shutil.ignore_patterns("expected", "output"))
        (work / "bin").mkdir()
        (work / "bin/msprobe").symlink_to(msprobe)
        environment = dict(os.environ, PATH="%s:%s" % (work / "bin", os.environ["PATH"]))
        run = subprocess.run(["bash", "-c", (case / "cmd.txt").read_text()], cwd=work, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
        expected_exit = int((case / "expected/exit_code.txt").read_text())
        score.count((run.returncode == 0) == (expected_exit == 0),
                    "exit status %d, expected %d: %s" % (run.returncode, expected_exit, run.stdout.decode(errors="replace")[-500:]))
        results = {}
        if (work / "output").is_dir():
            results = results_of(work / "output", lambda finding: score.count(False, finding))
        for path in sorted((case / "expected").rglob("*")):
            name = str(path.relative_to(case / "expected"))
            if path.suffix == ".csv":
                # Cells that hold absolute paths are recorded relative to the case folder.
                rows = [[cell.replace(str(work) + "/", "") for cell in row] for row in results.get(name, [])]
                if not rows:
                    score.count(False, "no result file for %s; there are: %s" % (name, ", ".join(results) or "none"))
                score_table(score, name, read_csv(path), rows)
            elif path.name.startswith("advisor"):
                lines = results.get(name, [])
                for i, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:2]):
                    got = lines[i] if i < len(lines) else ""
                    score.count(got.strip() == line.strip(), "%s line %d: expected %r, got %r" % (name, i, line, got))


if __name__ == "__main__":
    sys.exit(golden_cases.main("compare", "cmd.txt", run_case))
