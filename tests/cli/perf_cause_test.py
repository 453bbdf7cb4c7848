#!/usr/bin/env python3
"""How often perf_compare names the cause of a slower run: pairs of made-up trainings with a known fault in the second one.

usage: perf_cause_test.py MSPROBE [--seeds N] [--first-seed N] [--verbose]

Each seed makes one pair per kind of fault, of a vendor, size and noise drawn for it. Counted are pairs whose verdict is right, whose
cause is among the first three findings, and whose cause is the first. Fails below the rates that docs/commands/perf_compare.md tells.
"""
import argparse
import collections
import dataclasses
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kineto_trace
from kineto_trace import Plan

ATTENTION = r"_flash_attention_forward"


def faults(dice, base):
    """Kind of fault: the plan with it, what the finding must say, and the verdict."""
    change = lambda **fields: dataclasses.replace(base, **fields)
    slow = dice.choice(["aten::mm", "aten::native_layer_norm", "aten::gelu_backward", "aten::nll_loss_forward", "aten::addmm",
                        "aten::_flash_attention_forward", "aten::_flash_attention_backward", "aten::_fused_adamw_"])
    factor = {"aten::nll_loss_forward": 40, "aten::native_layer_norm": 6, "aten::gelu_backward": 5}.get(slow, 1.8)
    often = dice.choice(["aten::native_layer_norm", "aten::gelu", "aten::addmm"])
    return {
        "an operator got slower": (change(factors={slow: factor}), re.escape(slow), "SLOWER"),
        "an operator got faster": (change(factors={"aten::mm": 0.6}), r"aten::mm", "FASTER"),
        "another kernel": (change(kernels={"aten::addmm": "other gemm"}, factors={"aten::addmm": 2}),
                           r"aten::addmm.*other kernels.*->", "SLOWER"),
        "other shapes": (change(rows=base.rows * 2), r"aten::(mm|addmm).*shapes.*%d.*->.*%d" % (base.rows, base.rows * 2), "SLOWER"),
        "another dtype": (change(types="float", factors={"aten::mm": 2, "aten::addmm": 2}), r"aten::mm.*types.*Half.*->.*float", "SLOWER"),
        "more calls": (change(calls={often: 6}), re.escape(often) + r".*more calls", "SLOWER"),
        "casts": (change(casts_per_layer=8), r"aten::copy_.*only in the test|aten::copy_.*more calls", "SLOWER"),
        "copies from the host": (change(copies_per_layer=3), r"Memcpy HtoD \(Pageable", "SLOWER"),
        "a slower copy": (change(input_bytes_us=3000), r"Memcpy HtoD \(Pinned", "SLOWER"),
        "slower collectives": (change(hidden=False, collective_us=base.collective_us * 4), r"all_reduce", "SLOWER"),
        "waiting for another rank": (change(collective_us=base.collective_us + 6000), r"all_reduce", "SLOWER"),
        "a slow data loader": (change(loader_us=12000), r"DataLoader", "SLOWER"),
        "the host waits for the device": (change(syncs_per_layer=12), r"aten::item|python code|StreamSynchronize|copies.*Memcpy DtoH|host", "SLOWER"),
        "a slow host": (change(host_us=60), r"idle of (the host|.*on the host)", "SLOWER"),
        "graphs are gone": (change(graphs=False, host_us=40), r"one by one instead of by graphs", "SLOWER"),
        "another attention": (change(attention="efficient"), r"_flash_attention_(forward|backward).*-> .*efficient_attention", "SLOWER"),
        "attention in parts": (change(attention="math", factors={"aten::_softmax": 3}), r"flash_attention.*-> .*(softmax|bmm)", ""),
        "another optimizer": (change(optimizer="foreach", factors={"aten::_foreach_mul_": 4}), r"_fused_adamw_ -> .*_foreach", "SLOWER"),
        "a slower clock": (change(clock=1.25), r"all operators alike", "SLOWER"),
        "more memory": (change(memory={"aten::mm": 60}), r"memory of aten::mm", "SAME"),
    }


def draw(seed):
    dice = random.Random(seed)
    base = Plan(vendor=dice.choice(["nvidia", "amd"]), steps=dice.randint(2, 3), layers=dice.choice([3, 4, 6]), seed=seed,
                noise=dice.choice([0.002, 0.01, 0.02]), host_us=dice.choice([2.0, 4.0]), whole_us=dice.random() < 0.2,
                text_streams=dice.random() < 0.2, shuffled=dice.random() < 0.3, annotations=dice.random() < 0.8,
                earlier_kernels=dice.choice([0, 0, 5]), repeated=dice.random() < 0.2)
    return dice, base


def told(finding):
    return "%s of %s (%s)" % (finding["metric"], finding["where"], finding["note"])


def judge(msprobe, base, plan, pattern, word, folder):
    """Whether the verdict is right, the place of the cause among the findings (None: not there), and the first finding."""
    kineto_trace.write(base, folder / "base.json")
    kineto_trace.write(plan, folder / "comparison.json")
    shutil.rmtree(folder / "out", ignore_errors=True)
    ended = subprocess.run([str(msprobe), "perf_compare", "-d", str(folder / "comparison.json"), "-bp", str(folder / "base.json"),
                            "-o", str(folder / "out"), "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                           timeout=300, check=False)
    if ended.returncode != 0:
        raise AssertionError(ended.stderr)
    rank = json.loads((folder / "out/summary.json").read_text(encoding="utf-8"))["ranks"][0]
    texts = [told(finding) for finding in rank["findings"]]
    places = [number for number, text in enumerate(texts) if re.search(pattern, text)]
    return rank["verdict"]["word"] == word or not word, places[0] if places else None, rank["verdict"]["text"], texts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("msprobe", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    cases, verdicts, among, first = 0, 0, 0, 0
    missed = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            dice, base = draw(seed)
            for kind, (plan, pattern, word) in faults(dice, base).items():
                before = dataclasses.replace(base, graphs=True) if kind == "graphs are gone" else base
                right, place, verdict, texts = judge(options.msprobe, before, dataclasses.replace(plan, seed=seed + 1000), pattern, word,
                                                     Path(scratch))
                cases += 1
                verdicts += right
                among += place is not None and place < 3
                first += place == 0
                if place != 0 or not right:
                    missed[kind] += 1
                if options.verbose or place is None or place >= 3 or not right:
                    print("seed %d, %s: verdict %s, cause %s\n    %s\n    %s" % (seed, kind, "right" if right else "WRONG",
                          "not told" if place is None else "at place %d" % (place + 1), verdict, "\n    ".join(texts[:3])))
            # The same training again, with another noise.
            right, _, verdict, _ = judge(options.msprobe, base, dataclasses.replace(base, seed=seed + 1000), "", "SAME", Path(scratch))
            cases_same = right
            if not cases_same:
                print("seed %d, nothing changed: %s" % (seed, verdict))
                missed["nothing changed"] += 1
    print("%d faults: verdict right %.1f %%, cause among the first three %.1f %%, first %.1f %%; missed: %s" %
          (cases, 100 * verdicts / cases, 100 * among / cases, 100 * first / cases, dict(missed)))
    good = verdicts >= 0.97 * cases and among >= 0.95 * cases and first >= 0.9 * cases and not missed["nothing changed"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
