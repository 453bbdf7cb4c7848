"""Writes cases, explains them with msprobe and holds the answers against the truth of the generator.

    MSPROBE=build/bin/msprobe python3 tests/explain/run_cases.py [--first SEED] [--seeds N] [--mixtures N] [--noise N] [--only CAUSE[+CAUSE]] [--keep DIR] [-v]
"""
import argparse
import collections
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases


def explain(folder):
    command = [os.environ.get("MSPROBE", "msprobe"), "rl_compare", os.path.join(folder, "engine"), os.path.join(folder, "trainer"),
               "--tokens", "rollout_log_probs=old_log_probs", "--mask", "response_mask", "--ids", "responses", "--explain", "--json", "-o", "none", "--threads", "1"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        raise RuntimeError(run.stderr.decode())
    answer = json.loads(run.stdout.decode())
    section = next(s for s in answer["sections"] if s["title"] == "Causes")
    table = next(b for b in section["blocks"] if b["kind"] == "table")
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


class Score:
    def __init__(self):
        self.cases = self.leading = self.noise = self.noise_wrong = 0
        self.attributed, self.errors, self.by_cause, self.problems = [], [], collections.defaultdict(lambda: [0, 0]), []

    def add(self, truth, rows):
        shares = {row["cause"]: row["share"] for row in rows}
        if abs(sum(shares.values()) - 1) > 0.005:
            self.problems.append("shares sum to %g" % sum(shares.values()))
        faults = [row for row in rows if row["cause"] not in ("noise", "unexplained")]
        said = " ".join("%s=%.2f[%s]" % (row["cause"], row["share"], row["steps"]) for row in rows)
        wanted = " ".join("%s=%.2f%s" % (c, s, truth["steps"].get(c, "")) for c, s in sorted(truth["shares"].items(), key=lambda x: -x[1]))
        if not truth["planted"]:
            self.noise += 1
            self.noise_wrong += bool(faults)
            right = not faults
        else:
            # Of causes whose true shares are within a tenth of each other, either may lead.
            most = max(s for c, s in truth["shares"].items())
            leaders = {c for c, s in truth["shares"].items() if s > most - 0.1}
            self.cases += 1
            right = bool(rows) and rows[0]["cause"] in leaders
            self.leading += right
            self.by_cause["+".join(truth["planted"])][0] += right
            self.by_cause["+".join(truth["planted"])][1] += 1
            for cause, share in truth["shares"].items():
                self.errors.append(abs(shares.get(cause, 0) - share))
        self.attributed.append(1 - shares.get("unexplained", 0))
        return right, "%s %s seed %s\n    true: %s\n    said: %s" % ("ok   " if right else "WRONG", "+".join(truth["planted"]) or "noise", truth["seed"], wanted, said)

    def report(self):
        lines = []
        if self.cases:
            lines.append("leading cause right: %d of %d (%.1f %%)" % (self.leading, self.cases, 100 * self.leading / self.cases))
            lines.append("shares are off by %.3f in the mean" % numpy.mean(self.errors))
        if self.noise:
            lines.append("noise called a fault: %d of %d" % (self.noise_wrong, self.noise))
        lines.append("attributed: %.1f %% of the gap in the mean, below 90 %% in %d of %d cases" % (
            100 * numpy.mean(self.attributed), sum(a < 0.9 for a in self.attributed), len(self.attributed)))
        for name, (right, count) in sorted(self.by_cause.items()):
            if right < count:
                lines.append("  %s: %d of %d" % (name, right, count))
        return "\n".join(lines + self.problems)


def plans(options):
    if options.only is not None:
        return [(tuple(c for c in options.only.split("+") if c and c != "noise"), options.first + i) for i in range(options.seeds)]
    pairs = [pair for pair in itertools.combinations(cases.CAUSES, 2)]
    out = [((cause,), options.first + i) for cause in cases.CAUSES for i in range(options.seeds)]
    out += [(pairs[i % len(pairs)], options.first + i) for i in range(options.mixtures)]
    return out + [((), options.first + i) for i in range(options.noise)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--mixtures", type=int, default=0)
    parser.add_argument("--noise", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--keep")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    score = Score()
    scratch = options.keep or tempfile.mkdtemp()
    for planted, seed in plans(options):
        folder = os.path.join(scratch, "%s-%d" % ("+".join(planted) or "noise", seed))
        if os.path.exists(os.path.join(folder, "truth.json")):
            with open(os.path.join(folder, "truth.json")) as file:
                truth = json.load(file)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            truth = cases.Case(planted, seed).write(folder)
        right, line = score.add(truth, explain(folder))
        if options.v or not right:
            print(line, flush=True)
        if not options.keep:
            shutil.rmtree(folder)
    if not options.keep:
        shutil.rmtree(scratch)
    print(score.report())


if __name__ == "__main__":
    main()
