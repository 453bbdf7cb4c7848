#!/usr/bin/env python3
"""Compares the verdicts about recorded requests with those of the Python tool.

usage: see golden_cases.py

A case holds requests.jsonl, config.yaml, mtype_config.json, token2category/ and expected.json: is_ill and ill_type by name.
"""
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases


def run_case(msprobe, case, score):
    command = [str(msprobe), "response_anomaly", "-i", "-", "--lines", "--config", str(case / "config.yaml"), "--models",
               str(case / "mtype_config.json"), "--categories", str(case / "token2category")]
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch, open(case / "requests.jsonl", "rb") as requests:
        ended = subprocess.run(command + ["-o", scratch, "--format", "csv,jsonl"], stdin=requests, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=60, check=False)
        score.count(ended.returncode == 0, "exit status %d: %s" % (ended.returncode, ended.stderr.decode()))
        lines = [json.loads(line) for line in ended.stdout.decode().splitlines()]
        kept = [json.loads(line) for line in (Path(scratch) / "response_anomaly.jsonl").read_text().splitlines()]
        score.count(lines == kept, "the file holds other rows than the output")
        with open(Path(scratch) / "response_anomaly.csv", encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    expected = json.loads((case / "expected.json").read_text())
    score.count([line["name"] for line in lines] == [item["name"] for item in expected], "other requests")
    for item, line, row in zip(expected, lines, rows):
        for key in ("is_ill", "ill_type"):
            score.count(line[key] == item[key], "%s: %s is %r, not %r" % (item["name"], key, line[key], item[key]))
            score.count(row[key] == str(line[key]).upper(), "%s: %s is %s in the table" % (item["name"], key, row[key]))


if __name__ == "__main__":
    sys.exit(golden_cases.main("response_anomaly" if sys.argv[2] != "further" else "msprobe26/response_anomaly", "expected.json",
                               run_case))
