#!/usr/bin/env python3
"""msprobe ckpt_compare on weights in every format: correct pairs are clean, planted faults are named.

Usage: weights_test.py MSPROBE [NAME...]; a name is that of a pair or a fault.
"""

import sys
import tempfile
from pathlib import Path

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

import compare as cp  # noqa: E402
import faults  # noqa: E402
import models  # noqa: E402
import pairs  # noqa: E402

CLEAN = ("identical", "equal", "rounding")


def check_pair(msprobe, name, folder):
    test, reference = pairs.PAIRS[name](folder)
    code, text, table = cp.compare(msprobe, test, reference)
    if table is None:
        return f"no result: {text[:500]}"
    wrong = [(row["name"], row["outcome"], row["cause"], row["notes"]) for row in table["parameters"]
             if row["outcome"] not in CLEAN or row["cause"]]
    alone = [row["name"] for row in table["only_in_1"] + table["only_in_2"]]
    if wrong or alone or code != 0:
        return f"exit {code}, {len(wrong)} not clean: {wrong[:3]}, without partner: {alone[:3]}"
    expected = pairs.EXPECTED_FORMATS.get(name)
    said = {row["format_2"] for row in table["parameters"] if models.is_linear(row["name"])}
    return f"format {said}, expected {expected}" if expected and said != {expected} else ""


def check_fault(msprobe, name, folder):
    test, reference, flags, expected = faults.FAULTS[name](folder)
    code, text, table = cp.compare(msprobe, test, reference, *flags)
    if table is None:
        return f"no result: {text[:500]}"
    found = {row["name"]: row["cause"] for row in table["parameters"] if row["outcome"] not in CLEAN or row["cause"]}
    found.update({row["name"]: row["cause"] for row in table["only_in_1"] + table["only_in_2"]})
    if found != expected or code != 1:
        rows = cp.rows(table)
        notes = {key: (rows[key]["outcome"], rows[key].get("beyond_rounding"), rows[key]["notes"])
                 for key in list(found)[:3] if key in rows}
        return f"exit {code}, found {found}, expected {expected} {notes}"
    return ""


def main():
    msprobe, chosen = sys.argv[1], sys.argv[2:]
    failed = 0
    count = 0
    for part, table, check in (("pairs", pairs.PAIRS, check_pair), ("faults", faults.FAULTS, check_fault)):
        for name in table:
            if chosen and name not in chosen and part not in chosen:
                continue
            count += 1
            with tempfile.TemporaryDirectory(prefix="msprobe-weights-") as folder:
                problem = check(msprobe, name, Path(folder))
            if problem:
                failed += 1
                print(f"FAILED {name}: {problem}", flush=True)
    print(f"{len(pairs.PAIRS)} pairs and {len(faults.FAULTS)} faults known, {count} run, {failed} failed")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
