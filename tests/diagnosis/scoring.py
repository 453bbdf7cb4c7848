"""Asks `msprobe compare` about a pair and holds its answer against the truth."""
import json
import math
import os
import shutil
import subprocess

# Words of summary.json for kinds of origin, as the truth has them.
KINDS = {"parameter": "parameter", "input": "input", "computation": "computation", "optimizer": "optimizer",
         "dtype": "dtype", "unmatched call": "unmatched", "unmatched": "unmatched", "missing call": "unmatched",
         "extra call": "unmatched", "missing": "unmatched", "extra": "unmatched"}


class Answer:
    def __init__(self, exit_code, step=None, call=None, kind=None, verdict=None, confidence=None, reason=None):
        self.exit_code, self.step, self.call, self.kind = exit_code, step, call, kind
        self.verdict, self.confidence, self.reason = verdict, confidence, reason


def ask_for_summary(msprobe, npu, bench, out, *more):
    """Runs compare with the gate that asks for differences: (exit code, summary.json)."""
    shutil.rmtree(out, ignore_errors=True)
    command = [msprobe, "compare", os.path.join(npu, "dump"), os.path.join(bench, "dump"), "-o", out,
               "--format", "csv", "-c", "--threads", "1", "--fail-on", "different", "--quiet"] + list(more)
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    path = os.path.join(out, "summary.json")
    if not os.path.exists(path):
        raise RuntimeError("compare gave no summary: " + run.stdout.decode("utf-8", "replace")[-1000:])
    with open(path) as file:
        return run.returncode, json.load(file)


def ask(msprobe, npu, bench, out):
    """The answer about a pair."""
    exit_code, summary = ask_for_summary(msprobe, npu, bench, out)
    answer = Answer(exit_code, verdict=summary.get("verdict"))
    index = summary.get("first_divergence_pair")
    if index is not None:
        pair = summary["pairs"][index]
        point = pair["first_divergence"]
        answer.step, answer.call = pair["step"], point["call"]
        answer.kind = KINDS.get(point["kind"], point["kind"])
        answer.confidence, answer.reason = point.get("confidence"), point.get("reason")
    return answer


def judge(truth, answer):
    """"right", or what is wrong first: "nothing named", "step", "call", "kind"."""
    if answer.call is None:
        return "nothing named"
    if answer.step != truth["step"]:
        return "step"
    kinds = [kind for call, kind in truth["answers"] if call == answer.call]
    if not kinds:
        return "call"
    return "right" if answer.kind in kinds else "kind"


def wilson(right, count, z=1.96):
    """The 95 % interval of a rate (Wilson 1927)."""
    if count == 0:
        return 0.0, 1.0
    rate = right / count
    centre = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, centre - half), min(1.0, centre + half)
