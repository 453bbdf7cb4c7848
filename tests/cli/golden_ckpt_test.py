#!/usr/bin/env python3
"""Runs golden pairs of checkpoints and scores the results cell by cell.

usage: see golden_cases.py

What a case folder holds is told in tests/data/ckpt/README.md. Each case runs five times: as `ckpt_compare` with our merging of
shards and with --compat, on one thread and on three, and as `config_check -c`; what differs between thread counts counts against
the case. Every name, order aside, and its four figures count one each, and so do the names that only one side has. Figures of
`ckpt_compare` without --compat may be finite where those of float32 are not.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases


# Integers that differ beyond the digits of float32.
EQUAL_ONLY_AS_FLOAT32 = "big_int"


def same_number(expected, actual, relative, absolute):
    if not isinstance(expected, float) or not isinstance(actual, float):
        return expected is actual or (type(expected) is type(actual) and expected == actual)
    if math.isnan(expected) or math.isinf(expected):
        return repr(expected) == repr(actual)
    return abs(expected - actual) <= max(relative * abs(expected), absolute)


def run(msprobe, case, facts, flags, folder):
    """The result file's text and what --unmatched wrote; None when the run failed."""
    output, unmatched = folder / "out.json", folder / "unmatched.json"
    command = [msprobe, "ckpt_compare", case / facts["ckpt1"], case / facts["ckpt2"], "-o", output, "--unmatched", unmatched,
               "--allow-missing-ranks", "--force", "-q"] + flags
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                           check=False)
    if ended.returncode != 0:
        return None, ended.stdout.decode(errors="replace")
    return output.read_text(), json.loads(unmatched.read_text())


def run_config_check(msprobe, case, facts, folder):
    """The result file of the Python tool's own command line; None when the run failed."""
    output = folder / "config_check.json"
    command = [msprobe, "-f", "pytorch", "config_check", "-c", case / facts["ckpt1"], case / facts["ckpt2"], "-o", output, "-q"]
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                           check=False)
    return json.loads(output.read_text()) if ended.returncode == 0 else None


def is_finite(value):
    return isinstance(value, float) and math.isfinite(value)


def score_results(expected, actual, flags, score, exact=False):
    """`exact`: the figures are not those of float32, which may be beyond its range."""
    score.count(not set(actual) - set(expected), "%s: names too many: %s" % (flags, sorted(set(actual) - set(expected))))
    for name, figures in expected.items():
        got = actual.get(name)
        score.count(got is not None, "%s: %s is missing" % (flags, name))
        got = got or {}
        score.count(list(got) == ["l2", "cos", "numel", "shape"], "%s: %s has keys %s" % (flags, name, list(got)))
        checks = {"l2": same_number(figures["l2"], got.get("l2"), 1e-5, 1e-6),
                  "cos": same_number(figures["cos"], got.get("cos"), 0, 2e-6),
                  "numel": figures["numel"] == got.get("numel"), "shape": figures["shape"] == got.get("shape")}
        for key in ("l2", "cos") if exact else ():
            # Where float32 overflows in the length, its cosine is lost, too.
            lost = not (is_finite(figures[key]) and is_finite(figures["l2"])) or name.endswith(EQUAL_ONLY_AS_FLOAT32)
            checks[key] = checks[key] or (lost and is_finite(got.get(key)))
        for key, good in checks.items():
            score.count(good, "%s: %s %s: expected %s, got %s" % (flags, name, key, figures[key], got.get(key)))


def run_case(msprobe, case, score):
    facts = json.loads((case / "case.json").read_text())
    expected = json.loads((case / "expected.json").read_text())
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        for merging in ([], ["--compat"]):
            texts = []
            for threads in ("1", "3"):
                flags = merging + ["--threads", threads]
                text, unmatched = run(msprobe, case, facts, flags, Path(scratch))
                score.count(text is not None, "%s failed: %s" % (flags, unmatched))
                if text is None:
                    continue
                texts.append(text)
                score_results(expected, json.loads(text), flags, score, exact=not merging)
                for side in ("1", "2"):
                    names = [entry["name"] for entry in unmatched["only_in_" + side]]
                    score.count(sorted(names) == sorted(facts["only_in_ckpt" + side]),
                                "%s: only in %s: %s" % (flags, side, names))
            score.count(len(set(texts)) == 1, "%s: the number of threads shows" % merging)
        actual = run_config_check(msprobe, case, facts, Path(scratch))
        score.count(actual is not None, "config_check failed")
        score_results(expected, actual or {}, "config_check", score)


if __name__ == "__main__":
    sys.exit(golden_cases.main("ckpt", "case.json", run_case))
