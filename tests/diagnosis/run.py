#!/usr/bin/env python3
"""How often is `msprobe compare` right? Plants faults of known kind and place, and counts.

    run.py --seeds 0-199 --cache DIR                  makes the dumps that are missing, asks, reports
    run.py --seeds 0-199 --cache DIR --only-compare   asks again about what is there, of every PyTorch: seconds
    run.py --seed 123 --keep DIR                      one case: its story, truth and answer; dumps stay in DIR

$MSPROBE is the program, or --msprobe; the Python package is found through PYTHONPATH (build/python).
"""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile

import dumps
import report
import scoring

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))


def seeds_of(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


_TOLD = ("seed", "torch", "kind", "family", "background", "level", "task", "steps", "optimizer", "records_update",
         "micro_batches", "faults", "truth", "skipped", "doubt", "first_operator")


def ask_about(msprobe, case, results):
    """One line of the report: the answers about the pair with the fault, and about the one without."""
    told = case.told
    line = {key: told.get(key) for key in _TOLD}
    if told.get("skipped"):
        return line
    truth = told["truth"]
    line["hidden"] = truth["hidden"]
    results = os.path.join(results, "torch" + told["torch"])
    answer = scoring.ask(msprobe, case.side("npu"), case.bench(), os.path.join(results, "%d" % told["seed"]))
    line["answer"] = answer.__dict__
    line["judged"] = scoring.judge(truth, answer) if not truth["hidden"] else None
    benign = scoring.ask(msprobe, case.side("clean"), case.bench(),
                         os.path.join(results, "%d_benign" % told["seed"]))
    line["benign"] = dict(benign.__dict__)
    line["benign"]["false_origin"] = benign.call is not None and not (
        told["task"] == "md5" and
        dumps.inputs_are_bit_equal(case.side("clean"), case.bench(), benign.step, benign.call))
    line["benign"]["gate_counts"] = told["task"] != "md5" and told["background"] != "bf16_against_fp32"
    line["benign"]["false_gate"] = line["benign"]["gate_counts"] and benign.exit_code != 0
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of,
                        help="such as 0-199 or 3,17,40-50; default: what the cache holds, or 0-99")
    parser.add_argument("--seed", type=int, help="one case, told at length")
    parser.add_argument("--keep", metavar="DIR", help="with --seed: where its dumps stay")
    parser.add_argument("--cache", metavar="DIR", help="dumps are kept and used again")
    parser.add_argument("--only-compare", action="store_true",
                        help="no case is made, only those in the cache are asked about")
    parser.add_argument("--tell-again", action="store_true",
                        help="finds the truth about cached cases anew, then asks")
    parser.add_argument("--only-make", action="store_true", help="no question is asked")
    parser.add_argument("--results", metavar="DIR", help="what compare writes stays there: <seed>, <seed>_benign")
    parser.add_argument("--kind", help="only faults of this kind")
    parser.add_argument("--json", metavar="FILE", help="every case and its judgement, for programs")
    parser.add_argument("--failures", action="store_true", help="lists what was wrong, with seeds")
    parser.add_argument("--table", action="store_true", help="the rates as a table for docs/commands/compare.md")
    parser.add_argument("--jobs", type=int, default=2, help="compares that run at once")
    parser.add_argument("--msprobe", default=os.environ.get("MSPROBE", os.path.join(REPOSITORY, "build/bin/msprobe")))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msprobe_diagnosis_") as scratch:
        cache = arguments.keep or arguments.cache or scratch
        os.makedirs(cache, exist_ok=True)
        seeds = [arguments.seed] if arguments.seed is not None else arguments.seeds
        if arguments.only_compare:
            import cases_on_disk as store
            found = (store.load(root, seed) for root in store.roots(cache)
                     for seed in seeds or sorted(int(name) for name in os.listdir(root)))
        else:
            sys.path.insert(0, os.path.join(REPOSITORY, "build", "python"))
            import cases as store
            root = os.path.join(cache, "torch" + store.TORCH)
            found = (store.make(root, seed) for seed in seeds or range(100))
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
                report.failures(lines)
                print()
            (report.table if arguments.table else report.rates)(lines)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(lines, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
