#!/usr/bin/env python3
"""Runs golden cases of the 26.x command line of compare and scores their tables and JSON files.

usage: see golden_cases.py

What a case folder holds is told in tests/data/compare26/README.md. Numbers agree within 1e-4 relative or 2e-12 absolute; of
Err_message the kinds of reasons count, in order; all else is equal text apart from blanks at the ends.
"""
import csv
import json
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

STAMP = re.compile(r"_(\d{14}|\d{19})(?=\.)")
KIND = re.compile(r"(error|warning):")


def cell_text(value):
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def results_of(folder):
    """{name without time stamp: rows of texts, or the JSON value}"""
    results = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = STAMP.sub("", str(path.relative_to(folder)))
        if path.suffix == ".csv":
            with open(path, newline="", encoding="utf-8") as stream:
                results[name] = list(csv.reader(stream))
        elif path.suffix == ".xlsx":
            sheet = openpyxl.load_workbook(path).active
            results[name[:-len(".xlsx")] + ".csv"] = [[cell_text(cell.value) for cell in row] for row in sheet.iter_rows()]
        elif path.suffix == ".json":
            results[name] = json.loads(path.read_text(encoding="utf-8"))
    return results


def as_number(text):
    try:
        return float(text[:-1] if text.endswith("%") else text)
    except ValueError:
        return None


def same_text(header, expected, actual):
    expected, actual = expected.strip(), actual.strip()
    if header == "Err_message":
        return KIND.findall(expected) == KIND.findall(actual)
    if expected == actual:
        return True
    a, b = as_number(expected), as_number(actual)
    if a is None or b is None or expected.endswith("%") != actual.endswith("%"):
        return False
    if math.isnan(a) or math.isinf(a):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= max(1e-4 * abs(a), 2e-12)


def score_table(score, name, expected, actual):
    headers = expected[0]
    columns = {header: i for i, header in reversed(list(enumerate(actual[0])))}
    for header in headers:
        score.count(header in columns, "%s has no column %s" % (name, header))
    score.count([h for h in actual[0] if h in headers] == headers, "%s: the order of columns" % name)
    places = defaultdict(deque)
    for i, row in enumerate(actual[1:]):
        places[tuple(row[:2])].append(i)
    for i, row in enumerate(expected[1:]):
        queue = places[tuple(row[:2])]
        if not queue:
            score.count(False, "%s row %d (%s) is missing" % (name, i, row[0]), weight=len(headers) + 1)
            continue
        at = queue.popleft()
        score.count(at == i, "%s row %d (%s) stands at %d" % (name, i, row[0], at))
        for k, header in enumerate(headers):
            value = actual[1 + at][columns[header]] if header in columns else None
            score.count(value is not None and same_text(header, row[k], value),
                        "%s row %d (%s) %s: expected %r, got %r" % (name, i, row[0], header, row[k][:120], value))
    for queue in places.values():
        for at in queue:
            score.count(False, "%s row %d (%s) is too much" % (name, at, actual[1 + at][0]))


def score_json(score, place, expected, actual):
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in list(expected) + [key for key in actual if key not in expected]:
            if key in expected and key in actual:
                score_json(score, "%s.%s" % (place, key), expected[key], actual[key])
            else:
                score.count(False, "%s.%s is on one side only" % (place, key))
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for i, item in enumerate(expected):
            score_json(score, "%s[%d]" % (place, i), item, actual[i])
    else:
        same = type(expected) is type(actual) and same_text("", json.dumps(expected), json.dumps(actual))
        if isinstance(expected, str) and isinstance(actual, str):
            same = same_text("", expected, actual)
        score.count(same, "%s: expected %r, got %r" % (place, str(expected)[:80], str(actual)[:80]))


def run_case(msprobe, case, score):
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        work = Path(scratch).resolve() / case.name
        shutil.copytree(case, work, ignore=shutil.ignore_patterns("expected", "output"))
        if (case / "inputs.txt").exists():
            inputs = case / (case / "inputs.txt").read_text().strip()
            shutil.copytree(inputs, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected", "output", "cmd.txt"))
        for path in work.glob("*.yaml"):
            path.write_text(path.read_text().replace("<CASE>", str(work)))
        (work / "bin").mkdir()
        (work / "bin/msprobe").symlink_to(msprobe)
        environment = dict(os.environ, PATH="%s:%s" % (work / "bin", os.environ["PATH"]))
        run = subprocess.run(["bash", "-c", (case / "cmd.txt").read_text()], cwd=work, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
        expected_exit = int((case / "expected/exit_code.txt").read_text())
        score.count((run.returncode == 0) == (expected_exit == 0),
                    "exit status %d, expected %d: %s" % (run.returncode, expected_exit, run.stdout.decode(errors="replace")[-500:]))
        results = results_of(work / "output") if (work / "output").is_dir() else {}
        for name, expected in sorted(results_of(case / "expected").items()):
            actual = results.get(name)
            if not actual:
                score.count(False, "no result file for %s; there are: %s" % (name, ", ".join(results) or "none"))
            elif name.endswith(".json"):
                score_json(score, name, expected, actual)
            else:
                score_table(score, name, expected, actual)


if __name__ == "__main__":
    sys.exit(golden_cases.main("msprobe26/compare", "cmd.txt", run_case))
