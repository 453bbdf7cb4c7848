#!/usr/bin/env python3
"""What perf_compare says of traces against a computation of its own from their raw events, to a thousandth.

usage: perf_raw_test.py MSPROBE

Traces of both vendors with several streams, stream 0, graphs, marked ranges, kernels launched before the profile began, collectives
beside computing, repeated and unordered events. The computation here is slow and plain on purpose.
"""
import collections
import csv
import dataclasses
import glob
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kineto_trace
from kineto_trace import Plan

MSPROBE = None
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")


def is_communication(event):
    return event["cat"] == "kernel" and event["name"].startswith(("nccl", "rccl"))


def is_copy(event):
    return event["cat"] != "kernel"


def union(intervals):
    total, last = 0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total


class Raw:
    """One side, from its events."""

    def __init__(self, document, step=None):
        # Whole nanoseconds: sums of such numbers are exact.
        events = [dict(event, ts=round(event["ts"] * 1000), dur=round(event["dur"] * 1000)) for event in document["traceEvents"]
                  if event.get("ph") == "X"]
        self.calls = {event["args"]["correlation"]: event for event in reversed(events) if event["cat"] in RUNTIME}
        self.operators = [event for event in events if event["cat"] == "cpu_op"]
        seen, self.work = set(), []
        for event in events:
            if event["cat"] in WORK:
                key = (event["pid"], event["tid"], event["ts"], event["dur"], event["name"], event["args"]["correlation"])
                if key not in seen:
                    seen.add(key)
                    self.work.append(event)
        self.starts = {event["name"]: event for event in events if event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation"}
        if step is not None:
            marker = self.starts["ProfilerStep#%d" % step]
            self.work = [event for event in self.work if event["args"]["correlation"] in self.calls and
                         marker["ts"] <= self.calls[event["args"]["correlation"]]["ts"] < marker["ts"] + marker["dur"]]
        self.events = events

    def split(self):
        spans = [(event["ts"], event["ts"] + event["dur"], event) for event in self.work]
        computing = union((a, b) for a, b, event in spans if not is_copy(event) and not is_communication(event))
        both = union((a, b) for a, b, event in spans if not is_copy(event))
        busy = union((a, b) for a, b, _ in spans)
        whole = max(b for _, b, _ in spans) - min(a for a, _, _ in spans)
        return {"end_to_end_ms": whole / 1e6, "computing_ms": computing / 1e6, "uncovered_communication_ms": (both - computing) / 1e6,
                "copies_ms": (busy - both) / 1e6, "free_ms": (whole - both) / 1e6}

    def owner(self, event):
        """The innermost operator around the launch, or why there is none."""
        call = self.calls.get(event["args"]["correlation"])
        if call is None:
            return None, "earlier_ms" if event["args"]["correlation"] < min(self.calls) else "unknown_ms"
        inside = [item for item in self.operators if item["tid"] == call["tid"] and item["ts"] <= call["ts"] < item["ts"] + item["dur"]]
        if inside:
            return max(inside, key=lambda item: (item["ts"], -item["dur"])), None
        if "GraphLaunch" in call["name"]:
            return None, "graphs_ms"
        return None, "copies_ms" if is_copy(event) else "outside_ms"

    def owners(self):
        operators, nobody = collections.Counter(), collections.Counter()
        for event in self.work:
            operator, reason = self.owner(event)
            if operator is None:
                nobody[reason] += event["dur"] / 1e6
            elif not is_copy(event) and not is_communication(event):
                operators[operator["name"]] += event["dur"] / 1e6
        return operators, nobody

    def kernels(self):
        sums = collections.Counter()
        for event in self.work:
            sums[event["name"]] += event["dur"] / 1e3
        return sums


def compare(base, comparison, folder, *flags):
    for side, document in (("base", base), ("comparison", comparison)):
        (folder / (side + ".json")).write_text(json.dumps(document), encoding="ascii")
    ended = subprocess.run([str(MSPROBE), "perf_compare", "-d", str(folder / "comparison.json"), "-bp", str(folder / "base.json"),
                            "-o", str(folder / "out")] + list(flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True, timeout=300, check=False)
    if ended.returncode != 0:
        raise AssertionError("exit code %d: %s" % (ended.returncode, ended.stderr))
    summary = json.loads((folder / "out/summary.json").read_text(encoding="utf-8"))
    return summary["ranks"][0], ended.stdout


class AgainstRawEvents(unittest.TestCase):
    def near(self, told, raw, what):
        self.assertLessEqual(abs(told - raw), max(1e-3 * abs(raw), 1e-6), "%s: %r instead of %r" % (what, told, raw))

    def check(self, base, comparison, *flags, step=None):
        documents = [kineto_trace.Trace(plan).run().document() for plan in (base, comparison)]
        with tempfile.TemporaryDirectory() as scratch:
            rank, screen = compare(*documents, Path(scratch), *flags)
            tables = glob.glob(scratch + "/out/*_Kernels.csv")
            self.assertEqual(len(tables), 1)
            with open(tables[0], newline="", encoding="utf-8") as stream:
                rows = list(csv.DictReader(stream))
        for side, document in zip(("base", "comparison"), documents):
            raw = Raw(document, step)
            for name, value in raw.split().items():
                self.assertGreaterEqual(rank[side][name], 0)
                self.near(rank[side][name], value, "%s %s" % (side, name))
            operators, nobody = raw.owners()
            told = rank[side + "_unowned"]
            for name in ("graphs_ms", "copies_ms", "earlier_ms", "outside_ms", "unknown_ms"):
                self.near(told[name], nobody[name], "%s %s" % (side, name))
            self.near(told["device_ms"], sum(event["dur"] for event in raw.work) / 1e6, "device time")
            self.assertIn("%s: %.3f ms (" % ({"base": "reference", "comparison": "test"}[side], sum(nobody.values())), screen)
            for finding in rank["findings"]:
                if finding["metric"] == "device time" and finding["where"].startswith("aten::") and "->" not in finding["where"]:
                    self.near(finding[side], operators[finding["where"].split(" ")[0]], side + " " + finding["where"])
                if finding["metric"] == "host time":
                    self.assertGreaterEqual(finding[side], 0, finding["where"])
            by_kernel = {row["Kernel"]: float(row[side.capitalize() + " Total Duration(us)"]) for row in rows if row["Kernel"] != "[ TOTAL ]"}
            for name, us in raw.kernels().items():
                self.near(by_kernel[name], us, name)
            self.near(sum(by_kernel.values()), sum(raw.kernels().values()), "all kernels")
        return rank, screen

    def pair(self, *flags, step=None, after=None, **plan):
        plan.setdefault("noise", 0.05)
        base = Plan(seed=1, **plan)
        return self.check(base, dataclasses.replace(base, seed=2, factors={"aten::mm": 1.5}, **(after or {})), *flags, step=step)

    def test_nvidia(self):
        rank, _ = self.pair()
        self.assertEqual(rank["verdict"]["word"], "SLOWER")

    def test_amd_on_stream_0_beside_others(self):
        rank, _ = self.pair(vendor="amd")
        self.assertGreater(rank["base"]["computing_ms"], 1)

    def test_graphs_of_both_vendors(self):
        for vendor in ("nvidia", "amd"):
            rank, _ = self.pair(vendor=vendor, graphs=True)
            self.assertGreater(rank["base_unowned"]["graphs_ms"], 1)

    def test_kernels_of_an_earlier_step_and_outside_of_operators(self):
        rank, _ = self.pair(earlier_kernels=9, direct=True, copies_per_layer=1)
        self.assertGreater(rank["base_unowned"]["earlier_ms"], 0.5)
        self.assertGreater(rank["base_unowned"]["outside_ms"], 0.05)

    def test_one_step_holds_nothing_of_the_one_before(self):
        for vendor in ("nvidia", "amd"):
            self.pair("--base_step", "6", "--comparison_step", "6", step=6, vendor=vendor, earlier_kernels=9, steps=3, host_us=1)

    def test_collectives_beside_computing_and_alone(self):
        hidden, _ = self.pair(collective_us=700, collectives=4)
        alone, _ = self.pair(collective_us=700, collectives=4, hidden=False)
        self.assertGreater(alone["base"]["uncovered_communication_ms"], hidden["base"]["uncovered_communication_ms"])

    def test_a_gate_on_an_operator_counts_graphs_and_launches_of_the_driver(self):
        for vendor in ("nvidia", "amd"):
            documents = [kineto_trace.Trace(Plan(seed=seed, vendor=vendor)).run().document() for seed in (1, 2)]
            with tempfile.TemporaryDirectory() as scratch:
                rank, _ = compare(*documents, Path(scratch), "--fail-if", "op:aten::mm>100%")
            told = rank["gates"][0]["explanation"].split(" ")[1]
            self.near(float(told), Raw(documents[0]).owners()[0]["aten::mm"], "gate")

    def test_events_in_any_order_and_repeated(self):
        self.pair(shuffled=True, repeated=True)

    def test_whole_microseconds_and_streams_as_texts(self):
        self.pair(whole_us=True, text_streams=True)

    def test_without_marked_ranges_and_steps(self):
        self.pair(annotations=False, step_markers=False)

    def test_two_vendors_against_each_other(self):
        self.pair(after={"vendor": "amd"})


if __name__ == "__main__":
    MSPROBE = Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=1)
