#!/usr/bin/env python3
"""Searches golden dumps with a known origin of NaN or infinity.

usage: see golden_cases.py

A case holds step0/rank*/..., truth.json (the origins that were built in) or any_of.json (several acceptable answers), and
expected_reference.json, the Python tool's answer. The truth is what counts. Where the Python tool names the same operators, the
file must be its file byte by byte; elsewhere it must have its layout. Cases run on one thread and on three.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases

MEMBERS = ["op_name", "data_info", "construct_info", "stack_info"]


def operators(answer):
    return sorted((int(rank.split("_")[1]), entry["op_name"]) for rank, entries in (answer or {}).items() for entry in entries)


def acceptable_answers(case):
    answers = []
    if (case / "truth.json").exists():
        answers.append(json.loads((case / "truth.json").read_text()))
    if (case / "any_of.json").exists():
        answers += json.loads((case / "any_of.json").read_text())
    return [sorted((item["rank"], item["op_name"]) for item in answer) for answer in answers]


def score_layout(case, answer, score):
    for rank, entries in answer.items():
        folder = case / "step0" / rank.replace("_", "")
        if not folder.is_dir():
            folder = case / "step0/rank"
        data = json.loads((folder / "dump.json").read_text())["data"]
        for entry in entries:
            score.count(list(entry)[:4] == MEMBERS, "%s: members %s" % (rank, list(entry)))
            recorded = data[entry["op_name"]]
            for key, value in entry["data_info"].items():
                score.count(repr(value) == repr(recorded.get(key)), "%s %s: %s differs" % (rank, entry["op_name"], key))


def run_case(msprobe, case, score):
    accepted = acceptable_answers(case)
    reference = json.loads((case / "expected_reference.json").read_text())
    texts = set()
    for command in (["-f", "pytorch", "nan_analyze"], ["overflow_check"]):
        for threads in ("1", "3"):
            with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
                output = Path(scratch) / "out"
                words = [str(msprobe)] + command + ["-i", str(case / "step0"), "-o", str(output), "--threads", threads]
                ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
                score.count(ended.returncode == 0, "%s: exit status %d" % (words[1:4], ended.returncode))
                files = sorted(output.glob("anomaly_analyze_*.json")) if output.exists() else []
                score.count(len(files) < 2, "%d files" % len(files))
                score.count(bool(files) == output.exists(), "a folder without a result")
                texts.add(files[0].read_text() if files else None)
    score.count(len(texts) == 1, "the number of threads, or the command's name, shows")
    text = texts.pop()
    answer = json.loads(text) if text is not None else None
    found = operators(answer)
    score.count(found in accepted, "found %s, the truth is %s" % (found, accepted))
    if answer is not None and found == operators(reference):
        marked = any("origin_kind" in entry for entries in answer.values() for entry in entries)
        score.count(marked or text == json.dumps(reference, indent=2), "the file differs from the Python tool's")
    score_layout(case, answer or {}, score)


if __name__ == "__main__":
    sys.exit(golden_cases.main("nan_analyze", "expected_reference.json", run_case))
