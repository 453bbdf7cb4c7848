#!/usr/bin/env python3
"""Runs golden pairs of profiles and scores the workbooks cell by cell.

usage: see golden_cases.py

What a case folder holds is told in tests/data/perf/README.md. Every cell, the order of sheets, merged cells, widths, fills, number
formats and every row of the screen's table count one each. Cases run on one thread and on three. Workbooks are read with openpyxl.
"""
import csv
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases
import openpyxl

csv.field_size_limit(10**9)
FIRST_DATA_ROW = 4
NAME = re.compile(r"performance_comparison_result_\d{14}\.xlsx")


def as_number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def same_cell(expected, actual):
    actual = "" if actual is None else actual
    if isinstance(actual, bool):
        return False
    if isinstance(actual, (int, float)):
        number = as_number(expected)
        return number is not None and abs(number - actual) <= max(1e-9, 1e-9 * abs(number))
    return expected == actual


def without_noise(rows):
    def is_noise(row):
        return row[0] == "\tOther" and all(abs(as_number(row[column]) or 0) < 1e-9 for column in (1, 4))

    return [row for row in rows if not is_noise(row)]


def fill_of(cell):
    return str(cell.fill.fgColor.rgb)[-6:] if cell.fill is not None and cell.fill.fill_type == "solid" else ""


def layout_of(sheet):
    fills, formats = {}, []
    for column in range(1, sheet.max_column + 1):
        cells = [sheet.cell(row, column) for row in range(FIRST_DATA_ROW, sheet.max_row + 1)]
        formats.append(sorted({cell.number_format for cell in cells if cell.value is not None}))
    for row in sheet.iter_rows(min_row=FIRST_DATA_ROW):
        for cell in row:
            if fill_of(cell):
                fills.setdefault(fill_of(cell), []).append(cell.coordinate)
    return {"merged": sorted(str(merged) for merged in sheet.merged_cells.ranges),
            "widths": {name: round(column.width, 2) for name, column in sorted(sheet.column_dimensions.items()) if column.width},
            "header_fill": [fill_of(cell) for cell in sheet[3]], "number_formats": formats, "fills": fills}


def same_widths(expected, actual):
    return expected.keys() == actual.keys() and all(abs(expected[name] - actual[name]) < 0.8 for name in expected)


def expected_rows(folder, name):
    plain = folder / (name + ".csv")
    if plain.exists():
        with open(plain, newline="", encoding="utf-8") as stream:
            return list(csv.reader(stream))
    with gzip.open(folder / (name + ".csv.gz"), "rt", newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def score_sheet(name, expected, layout, sheet, facts, score):
    actual = [list(row) for row in sheet.iter_rows(values_only=True)]
    all_rows = len(expected)
    if name == "OverallMetrics":
        expected, actual = without_noise(expected), without_noise(actual)
    score.count(len(expected) == len(actual), "%s: %d rows instead of %d" % (name, len(actual), len(expected)))
    for number, (want, got) in enumerate(zip(expected, actual), 1):
        got += [None] * (len(want) - len(got))
        for column, cell in enumerate(want):
            if number == 1 and cell:
                side = cell.split(":")[0]
                good = str(got[column]) == "%s: %s" % (side, facts["base" if side.startswith("Base") else "comparison"])
            else:
                good = same_cell(cell, got[column])
            score.count(good, "%s row %d column %d: %r instead of %r" % (name, number, column + 1, got[column], cell))
    actual_layout = layout_of(sheet)
    for key, want in layout.items():
        if key == "fills" and all_rows != sheet.max_row:
            continue  # a row of noise more or less shifts the others
        got = actual_layout[key]
        score.count(want == got or (key == "widths" and same_widths(want, got)),
                    "%s %s: %s instead of %s" % (name, key, str(got)[:200], str(want)[:200]))


def table_rows(text):
    return [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in text.splitlines() if line.strip().startswith("|")]


def place_input(source, scratch):
    """Copies one side; compressed files are unpacked, as the expected titles name them."""
    if source.is_dir():
        shutil.copytree(source, scratch / source.name)
        return source.name
    if source.suffix == ".gz":
        with gzip.open(source) as stream, open(scratch / source.stem, "wb") as target:
            shutil.copyfileobj(stream, target)
        return source.stem
    shutil.copy(source, scratch)
    return source.name


def run_on_threads(msprobe, case, threads, score):
    facts = json.loads((case / "case.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for side in ("base", "comparison"):
            facts[side] = place_input(case / facts[side], scratch)
        ended = subprocess.run([str(msprobe), "perf_compare", "-d", facts["comparison"], "-bp", facts["base"], "-o", "out",
                                "--threads", str(threads)] + facts["args"], cwd=str(scratch), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, universal_newlines=True, timeout=300, stdin=subprocess.DEVNULL, check=False)
        books = sorted(scratch.glob("out/*.xlsx"))
        if facts.get("error"):
            score.count(ended.returncode == 2, "exit code %d instead of 2" % ended.returncode)
            score.count(re.search(facts["error"], ended.stderr), "no %r in: %s" % (facts["error"], ended.stderr))
            score.count(not books, "a workbook although it failed")
            return
        score.count(ended.returncode == 0, "exit code %d: %s" % (ended.returncode, ended.stderr))
        score.count(len(books) == 1 and NAME.fullmatch(books[0].name), "workbooks: %s" % [book.name for book in books])
        if not books:
            return
        layouts = json.loads((case / "expected/sheets.json").read_text(encoding="utf-8"))
        book = openpyxl.load_workbook(books[0])
        score.count(book.sheetnames == list(layouts), "sheets %s instead of %s" % (book.sheetnames, list(layouts)))
        for name, layout in layouts.items():
            if name in book.sheetnames:
                score_sheet(name, expected_rows(case / "expected", name), layout, book[name], facts, score)
        screen = case / "expected/screen.txt"
        if screen.exists():
            want, got = table_rows(screen.read_text(encoding="utf-8")), table_rows(ended.stdout)
            score.count(len(want) == len(got), "%d rows on the screen instead of %d" % (len(got), len(want)))
            for want_row, got_row in zip(want, got):
                score.count(want_row == got_row, "screen: %s instead of %s" % (got_row, want_row))


def run_case(msprobe, case, score):
    for threads in (1, 3):
        run_on_threads(msprobe, case, threads, score)


if __name__ == "__main__":
    sys.exit(golden_cases.main("perf_compare", "case.json", run_case))
