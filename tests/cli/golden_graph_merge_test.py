#!/usr/bin/env python3
"""Ranks of a tensor-parallel and of a pipeline-parallel model are merged to the dumps that the 26.x line makes of them.

usage: golden_graph_merge_test.py MSPROBE CASES_FOLDER
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"tp2": ["2", "--tp", "2", "--pp", "1"], "pp2": ["2", "--tp", "1", "--pp", "2"]}


def differences(want, got, where):
    if isinstance(want, dict) and isinstance(got, dict):
        if list(want) != list(got):
            yield "%s: members %s instead of %s" % (where, list(got)[:5], list(want)[:5])
        for key in set(want) & set(got):
            yield from differences(want[key], got[key], "%s.%s" % (where, key))
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for place, (x, y) in enumerate(zip(want, got)):
            yield from differences(x, y, "%s[%d]" % (where, place))
    elif isinstance(want, float) and isinstance(got, float):
        if not math.isclose(want, got, rel_tol=1e-12):
            yield "%s: %r instead of %r" % (where, got, want)
    elif want != got:
        yield "%s: %r instead of %r" % (where, got, want)


def main():
    msprobe, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    found = []
    for name, sizes in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
            subprocess.run([str(msprobe), "graph_visualize", "-tp", str(folder / name / "step0"), "-o", scratch, "-q", "--file_type", "json",
                            "--rank_size"] + sizes, check=True, timeout=60)
            for file in ("dump.json", "construct.json", "stack.json"):
                want = json.loads((folder / ("expected_" + name) / "step0/rank0" / file).read_text())
                got = json.loads((Path(scratch) / "step0/rank0" / file).read_text())
                found += differences(want, got, "%s %s" % (name, file))
    print("\n".join(found[:20]) or "both agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
