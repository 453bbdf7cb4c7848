#!/usr/bin/env python3
"""How often is `msprobe compare` right? Plants faults of known kind and place, and counts.

    run.py --seeds 0-199 --cache DIR                  makes the dumps that are missing, asks, reports
    run.py --seeds 0-199 --cache DIR --only-compare   asks again about what is there: seconds
    run.py --seed 123 --keep DIR                      one case: its story, truth and answer; dumps stay in DIR

$MSPROBE is the program, or --msprobe; the Python package is found through PYTHONPATH (build/python).
"""
import argparse
import collections
import concurrent.futures
import json
import os
import sys
import tempfile

import oracle
import scoring

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))


def seeds_of(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def ask_about(msprobe, case, results):
    """One line of the report: the answers about the pair with the fault, and about the one without."""
    told = case.told
    line = {key: told.get(key) for key in ("seed", "kind", "family", "background", "level", "task", "steps", "optimizer", "records_update",
                                  "micro_batches")}
    for key in ("faults", "truth", "skipped", "doubt", "first_operator"):
        line[key] = told.get(key)
    if told.get("skipped"):
        return line
    truth = told["truth"]
    line["hidden"] = truth["hidden"]
    answer = scoring.ask(msprobe, case.side("npu"), case.bench(), os.path.join(results, "%d" % told["seed"]))
    line["answer"] = answer.__dict__
    line["judged"] = scoring.judge(truth, answer) if not truth["hidden"] else None
    benign = scoring.ask(msprobe, case.side("clean"), case.bench(), os.path.join(results, "%d_benign" % told["seed"]))
    line["benign"] = dict(benign.__dict__)
    line["benign"]["false_origin"] = benign.call is not None and not (
        told["task"] == "md5" and
        oracle.inputs_are_bit_equal(case.side("clean"), case.bench(), benign.step, benign.call))
    line["benign"]["gate_counts"] = told["task"] != "md5" and told["background"] != "bf16_against_fp32"
    line["benign"]["false_gate"] = line["benign"]["gate_counts"] and benign.exit_code != 0
    return line


def rate(right, count):
    low, high = scoring.wilson(right, count)
    return "%5.1f %%  (%d of %d; %.1f to %.1f)" % (100.0 * right / max(1, count), right, count, 100 * low, 100 * high)


def report(lines, show=print):
    judged = [line for line in lines if line.get("judged")]
    show("fully right        " + rate(sum(line["judged"] == "right" for line in judged), len(judged)))
    for key in ("kind", "task", "level", "background", "family"):
        show("\nby " + key)
        for value in sorted({line[key] for line in judged}):
            those = [line for line in judged if line[key] == value]
            wrong = collections.Counter(line["judged"] for line in those if line["judged"] != "right")
            show("  %-18s %s  %s" % (value, rate(sum(line["judged"] == "right" for line in those), len(those)),
                                     ", ".join("%s %d" % item for item in wrong.most_common())))
    show("\nnot counted")
    reasons = collections.Counter(line.get("hidden") or line["skipped"] for line in lines if not line.get("judged"))
    for reason, count in reasons.most_common():
        show("  %5d  %s" % (count, reason))
    # Without a background a benign pair is one run twice.
    benign = [line for line in lines if "benign" in line and line["background"] != "none"]
    gated = [line for line in benign if line["benign"]["gate_counts"]]
    show("\nbenign pairs")
    show("  an origin named    " + rate(sum(line["benign"]["false_origin"] for line in benign), len(benign)))
    show("  the gate fails     " + rate(sum(line["benign"]["false_gate"] for line in gated), len(gated)))
    for key in ("background", "task", "level"):
        for value in sorted({line[key] for line in benign}):
            those = [line for line in benign if line[key] == value]
            gates = [line for line in those if line["benign"]["gate_counts"]]
            show("    %-18s origin %s   gate %d of %d" % (value, rate(sum(l["benign"]["false_origin"] for l in those), len(those)),
                                                         sum(l["benign"]["false_gate"] for l in gates), len(gates)))


def failures(lines, show=print):
    for line in lines:
        if line.get("judged") not in (None, "right"):
            truth, answer = line["truth"], line["answer"]
            show("seed %d (%s, %s, %s, %s, %s): %s wrong" % (line["seed"], line["kind"], line["family"], line["background"],
                                                          line["level"], line["task"], line["judged"]))
            answers = " | ".join("%s: %s" % (kind, call) for call, kind in truth["answers"][:4])
            show("    truth  step %s %s   effect %s over %s" % (truth["step"], answers, truth["effect"], truth["background"]))
            show("    answer step %s %s: %s" % (answer["step"], answer["kind"], answer["call"]))
        benign = line.get("benign")
        if benign and (benign["false_origin"] or benign["false_gate"]):
            show("seed %d (%s, %s, %s, %s) benign: %s" % (
                line["seed"], line["family"], line["background"], line["level"], line["task"],
                "step %s %s: %s" % (benign["step"], benign["kind"], benign["call"]) if benign["false_origin"] else
                "exit code %d, verdict %s" % (benign["exit_code"], benign["verdict"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, help="such as 0-199 or 3,17,40-50; default: what the cache holds, or 0-99")
    parser.add_argument("--seed", type=int, help="one case, told at length")
    parser.add_argument("--keep", metavar="DIR", help="with --seed: where its dumps stay")
    parser.add_argument("--cache", metavar="DIR", help="dumps are kept and used again")
    parser.add_argument("--only-compare", action="store_true", help="no case is made, only those in the cache are asked about")
    parser.add_argument("--tell-again", action="store_true", help="finds the truth about cached cases anew, then asks")
    parser.add_argument("--only-make", action="store_true", help="no question is asked")
    parser.add_argument("--results", metavar="DIR", help="what compare writes stays there: <seed>, <seed>_benign")
    parser.add_argument("--kind", help="only faults of this kind")
    parser.add_argument("--json", metavar="FILE", help="every case and its judgement, for programs")
    parser.add_argument("--failures", action="store_true", help="lists what was wrong, with seeds")
    parser.add_argument("--jobs", type=int, default=2, help="compares that run at once")
    parser.add_argument("--msprobe", default=os.environ.get("MSPROBE", os.path.join(REPOSITORY, "build/bin/msprobe")))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msprobe_diagnosis_") as scratch:
        cache = arguments.keep or arguments.cache or scratch
        os.makedirs(cache, exist_ok=True)
        if arguments.seed is not None:
            seeds = [arguments.seed]
        elif arguments.seeds:
            seeds = arguments.seeds
        elif arguments.only_compare:
            seeds = sorted(int(name) for name in os.listdir(cache) if name.isdigit())
        else:
            seeds = range(100)
        if arguments.only_compare:
            import cases_on_disk as store
        else:
            sys.path.insert(0, os.path.join(REPOSITORY, "build", "python"))
            import cases as store
        found = (store.load(cache, seed) if arguments.only_compare else store.make(cache, seed) for seed in seeds)
        found = (case for case in found if case and arguments.kind in (None, case.told["kind"]))
        if arguments.tell_again:
            found = (store.tell(case) for case in found)
        if arguments.only_make:
            for case in found:
                pass
            return 0
        found = list(found)  # before threads are started: cases are made by fork
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            results = arguments.results or os.path.join(scratch, "results")
            lines = list(pool.map(lambda case: ask_about(arguments.msprobe, case, results), found))
        if arguments.seed is not None:
            print(json.dumps(lines, indent=1))
        else:
            if arguments.failures:
                failures(lines)
                print()
            report(lines)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(lines, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
