#!/usr/bin/env python3
"""Does `msprobe hang` name the rank that a run waits for? Generated runs, each with one fault, against what was planted.

usage: hang_test.py MSPROBE [--runs N] [--first SEED] [--keep FOLDER] [-v]
"""
import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from recordings import FAULTS, Run


def ask(msprobe, folder, result):
    """The first line, and the rows of hang.csv."""
    done = subprocess.run([msprobe, "hang", str(folder), "-o", str(result), "--color", "never"], capture_output=True, text=True)
    if done.returncode != 0:
        return "exit code %d: %s" % (done.returncode, done.stderr.strip()), []
    with open(Path(result) / "hang.csv", newline="") as file:
        return (done.stdout.strip() or done.stderr.strip() or "no answer").splitlines()[0], list(csv.DictReader(file))


def wrong_in(run, first, rows):
    word, cause = run.expected
    if not first.startswith(word + ":"):
        return "%s expected, said: %s" % (word, first)
    if cause is None:
        return "rows: %s" % rows if rows else ""
    if not rows:
        return "no row"
    kind, rank, group, sequence = cause
    top = rows[0]
    if top["kind"] not in kind.split():
        return "kind %s, not %s: %s" % (top["kind"], kind, first)
    # Of two ranks that differ no one can say which one is wrong; and swapped calls are told from either side.
    tied = group is not None and len(run.groups[group][1]) == 2 and word == "MISMATCH"
    if rank is not None and not tied and top["rank"] != str(rank):
        return "rank %s, not %s: %s" % (top["rank"], rank, first)
    if group is not None and top["group"].split()[0] != group:
        return "group %s, not %s: %s" % (top["group"], group, first)
    if sequence is not None and top["sequence"] != str(sequence):
        return "sequence %s, not %s: %s" % (top["sequence"], sequence, first)
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("msprobe")
    parser.add_argument("--runs", type=int, default=4 * len(FAULTS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    right, failed = 0, []
    for seed in range(options.first, options.first + options.runs):
        with tempfile.TemporaryDirectory(prefix="msprobe_hang_") as scratch:
            folder = options.keep / str(seed) if options.keep else Path(scratch) / "traces"
            run = Run(seed)
            style = run.write(folder)
            first, rows = ask(options.msprobe, folder, Path(scratch) / "result")
        wrong = wrong_in(run, first, rows)
        right += not wrong
        if wrong:
            failed.append(seed)
            print("seed %d (%s, %s, %d ranks): %s" % (seed, run.fault, style, run.world, wrong))
        elif options.v:
            print("seed %d (%s): %s" % (seed, run.fault, first))
    print("%d of %d right" % (right, options.runs))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
