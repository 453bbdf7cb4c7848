#!/usr/bin/env python3
"""perf_compare of one run: which rank is late, which link is slow, what it costs; made-up traces whose fault is known.

usage: ranks_test.py MSPROBE [--seeds N]

A simulation: each rank computes, then enters a collective of one of its groups, which ends on all its ranks at the same moment. The
clock of every rank starts elsewhere. Waiting and transfer are counted here, from the traces, a second time.
"""
import argparse
import csv
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MSPROBE = None
SEEDS = 2
KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def groups_of(shape):
    """Ranks of a mesh (dp, tp), and the groups along both."""
    dp, tp = shape
    rank = lambda d, t: d * tp + t
    along_tp = [[rank(d, t) for t in range(tp)] for d in range(dp)] if tp > 1 else []
    along_dp = [[rank(d, t) for d in range(dp)] for t in range(tp)] if dp > 1 else []
    return along_tp, along_dp


def simulate(folder, shape=(1, 4), steps=4, layers=6, late=None, late_us=0, slow=None, slow_us=0, noise=0.01, seed=0, names=True, idle=False):
    """Traces of all ranks in `folder`; `late`: a rank that computes late_us longer per layer, `slow`: a rank whose collectives last slow_us longer."""
    dice = random.Random(seed)
    count = shape[0] * shape[1]
    along_tp, along_dp = groups_of(shape)
    now = [0.0] * count
    events = [[] for _ in range(count)]

    def collective(ranks, us, elements):
        us += slow_us if slow in ranks else 0
        us *= 1 + noise * dice.random()
        end = max(now[rank] for rank in ranks) + us
        for rank in ranks:
            arguments = {"stream": 20, "Collective name": "allreduce", "In msg nelems": elements}
            if names:
                arguments["Process Group Ranks"] = str(ranks)
            events[rank].append({"ph": "X", "cat": "kernel", "name": KERNEL, "pid": 0, "tid": 20, "ts": now[rank], "dur": end - now[rank],
                                 "args": arguments})
            now[rank] = end

    for step in range(steps):
        begin = list(now)
        for _ in range(layers):
            for rank in range(count):
                us = 1000 * (1 + noise * dice.random())
                more = late_us if rank == late else 0
                if idle:
                    now[rank] += more
                else:
                    us += more
                events[rank].append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": now[rank], "dur": us,
                                     "args": {"stream": 7}})
                now[rank] += us
            for ranks in along_tp:
                collective(ranks, 200, 4096)
        for ranks in along_dp:
            collective(ranks, 600, 65536)
        for rank in range(count):
            events[rank].append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d" % step, "pid": 1, "tid": 1,
                                 "ts": begin[rank], "dur": now[rank] - begin[rank], "args": {}})
    folder.mkdir()
    for rank in range(count):
        start = dice.uniform(1e6, 1e9)
        for event in events[rank]:
            event["ts"] = round(event["ts"] + start, 3)
            event["dur"] = round(event["dur"], 3)
        (folder / ("rank%d.pt.trace.json" % rank)).write_text(json.dumps({"schemaVersion": 1, "traceEvents": events[rank]}))


def counted(folder):
    """rank: (waiting, transfer) in ms per step, from the traces."""
    calls, steps = {}, {}
    for path in folder.glob("*.json"):
        rank = int(path.name[4:].split(".")[0])
        events = json.loads(path.read_text())["traceEvents"]
        steps[rank] = sum(event["cat"] == "user_annotation" for event in events)
        order = {}
        for event in sorted((event for event in events if event["name"] == KERNEL), key=lambda event: event["ts"]):
            group = event["args"].get("Process Group Ranks", "")
            order[group] = order.get(group, -1) + 1
            calls.setdefault((group, order[group]), {})[rank] = event["dur"]
    found = {rank: [0.0, 0.0] for rank in steps}
    for durations in calls.values():
        least = min(durations.values())
        for rank, duration in durations.items():
            found[rank][0] += (duration - least) / 1000 / steps[rank]
            found[rank][1] += least / 1000 / steps[rank]
    return found


class Ranks(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.addCleanup(self.scratch.cleanup)

    def run_it(self, *flags, run="run", code=0, variables=None):
        ended = subprocess.run([MSPROBE, "perf_compare", run, "-o", "out", "--force", "--json"] + list(flags), cwd=self.folder, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                               env=dict(os.environ, **(variables or {})))
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return json.loads(ended.stdout) if ended.stdout else {}

    def rows(self):
        with open(self.folder / "out/ranks.csv", encoding="utf-8") as file:
            return {int(row["rank"]): row for row in csv.DictReader(file)}

    def case(self, word, rank=None, code=0, **plan):
        simulate(self.folder / "run", **plan)
        answer = self.run_it(code=code)
        self.assertIn(word, json.dumps(answer["verdict"]))
        rows = self.rows()
        for number, (waiting, transfer) in counted(self.folder / "run").items():
            self.assertAlmostEqual(float(rows[number]["waiting_ms"]), waiting, places=3)
            self.assertAlmostEqual(float(rows[number]["transfer_ms"]), transfer, places=3)
        if rank is not None:
            self.assertIn("rank %d " % rank, json.dumps(answer["verdict"]))
        return answer, rows

    def test_nothing_is_said_of_balanced_ranks(self):
        for seed, shape in itertools.product(range(SEEDS), ((1, 2), (1, 4), (4, 1), (2, 4), (4, 4))):
            with self.subTest(seed=seed, shape=shape):
                self.case("BALANCED", shape=shape, seed=seed, noise=0.05)
            self.again()

    def test_times_on_the_screen_are_whole_microseconds(self):
        simulate(self.folder / "run", shape=(2, 2), noise=1e-6)
        shown = subprocess.run([MSPROBE, "perf_compare", "run", "-o", "out"], cwd=self.folder, check=True, stdout=subprocess.PIPE,
                               universal_newlines=True).stdout
        table = shown.partition("Ranks, per step")[2].partition("\n\n")[0]
        self.assertIn("Waiting ms", table)
        self.assertNotRegex(table, r"\de-\d|\.\d{4}")

    def again(self):
        subprocess.run(["rm", "-rf", str(self.folder / "run"), str(self.folder / "out")], check=True)

    def test_a_rank_that_computes_longer_is_late(self):
        for seed, shape in itertools.product(range(SEEDS), ((1, 2), (1, 4), (4, 1), (2, 4), (4, 4))):
            late = random.Random(seed).randrange(shape[0] * shape[1])
            with self.subTest(seed=seed, shape=shape, late=late):
                _, rows = self.case("LATE RANK", late, shape=shape, seed=seed, late=late, late_us=150)
                self.assertAlmostEqual(float(rows[late]["cost_ms"]), 0.9, delta=0.15)
                self.assertEqual(rows[late]["verdict"], "late")
            self.again()

    def test_a_rank_that_is_idle_longer_is_late(self):
        answer, _ = self.case("LATE RANK", 2, late=2, late_us=200, idle=True)
        self.assertIn("is idle", json.dumps(answer["verdict"]))

    def test_groups_without_names_are_matched_by_kind_and_order(self):
        self.case("LATE RANK", 1, late=1, late_us=200, names=False)

    def test_the_rank_in_all_slow_groups_has_the_slow_link(self):
        for seed, shape in itertools.product(range(SEEDS), ((2, 4), (4, 4))):
            slow = random.Random(seed).randrange(shape[0] * shape[1])
            with self.subTest(seed=seed, shape=shape, slow=slow):
                _, rows = self.case("SLOW LINK", slow, shape=shape, seed=seed, slow=slow, slow_us=300)
                self.assertEqual(rows[slow]["verdict"], "slow link")
            self.again()

    def test_a_missing_rank_is_named_and_a_bad_file_is_a_row(self):
        simulate(self.folder / "run", shape=(2, 2), late=3, late_us=200)
        (self.folder / "run/rank0.pt.trace.json").unlink()
        answer = self.run_it()
        self.assertIn("no profile of rank 0", json.dumps(answer))
        (self.folder / "run/rank1.pt.trace.json").write_text("this is no trace")
        self.run_it(code=3)
        self.assertEqual(self.rows()[1]["verdict"], "not read")

    def test_gates(self):
        simulate(self.folder / "run", late=1, late_us=200)
        self.run_it("--fail-on", "late", code=1)
        self.run_it("--fail-on", "link")
        page = subprocess.run([MSPROBE, "perf_compare", "run", "-o", "page", "--format", "html"], cwd=self.folder, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if "built without the page" not in page.stderr:
            self.assertEqual(page.returncode, 0, page.stderr)
            self.assertTrue((self.folder / "page/ranks.html").exists())
        ended = subprocess.run([MSPROBE, "perf_compare", "run", "--fail-on", "e2e>5%"], cwd=self.folder, check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.assertEqual(ended.returncode, 2)

    def test_processes_share_the_ranks(self):
        simulate(self.folder / "run", late=1, late_us=200)
        variables = [dict(os.environ, PMI_RANK=str(index), PMI_SIZE="2") for index in range(2)]
        started = [subprocess.Popen([MSPROBE, "perf_compare", "run", "-o", "out", "-q"], cwd=self.folder, env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True) for environment in variables]
        ended = [process.communicate(timeout=120) for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0], ended)
        self.assertEqual([row["verdict"] for _, row in sorted(self.rows().items())], ["", "late", "", ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("msprobe")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    MSPROBE, SEEDS = os.path.abspath(arguments.msprobe), arguments.seeds
    unittest.main(argv=sys.argv[:1])
