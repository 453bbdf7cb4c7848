#!/usr/bin/env python3
"""How often does `msprobe compare` understand two layouts of one model, and name a planted fault with its relation?

    run_pairs.py --pairs 300 --seed 0 --cache DIR --failures    makes the dumps that are missing, asks, reports
    run_pairs.py --cache DIR --only-compare --failures          asks again about what is there: seconds
    run_pairs.py --pairs 1 --seed 123 --cache DIR --json -      one pair: its story, truth and answer

$MSPROBE is the program, or --msprobe; the Python package is found through PYTHONPATH (build/python).
"""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(os.path.dirname(HERE), "diagnosis"))

import judging  # noqa: E402
import pairs_on_disk  # noqa: E402
import pairs_report  # noqa: E402

FIRST_SIGHT = 100000  # seeds from here on were drawn after the rules were written: no rule has seen them


def _told(answer):
    return {key: getattr(answer, key) for key in ("step", "kind", "call", "row", "relation", "factor", "ranks")}


def ask_about(msprobe, pair, results):
    """One line of the report: the answers about the side with the fault, and about the one without."""
    told = pair.told
    line = {key: told.get(key) for key in ("seed", "kind", "layout", "record", "torch", "truth", "plant", "skipped", "doubt")}
    line.update(task=told["npu"]["task"], level=told["npu"]["level"], bench_style=told["bench"]["style"])
    if told.get("skipped"):
        return line
    nothing = dict.fromkeys(("step", "kind", "call", "row", "relation", "factor", "ranks"))
    try:
        _, _, answer = judging.ask(msprobe, pair, "npu", os.path.join(results, "%s" % told["seed"]))
        line["answer"] = _told(answer)
        line["judged"] = judging.judge(told, answer) if not told["doubt"] else None
    except RuntimeError as error:  # compare gave no answer
        line["answer"], line["judged"], line["error"] = nothing, "refused", str(error)
    folder = os.path.join(results, "%s_clean" % told["seed"])
    try:
        _, summary, alarm = judging.ask(msprobe, pair, "clean", folder)
        line["alarm"], line["false_alarm"] = _told(alarm), alarm.named
    except RuntimeError:
        summary = {"pairs": []}
        line["alarm"], line["false_alarm"] = nothing, False
    layouts = judging.judge_layouts(told, summary, folder)
    line["layouts"], line["layouts_right"] = len(layouts), sum(expected == given for _, _, expected, given in layouts)
    line["wrong_layouts"] = [(side, path, sorted(expected), sorted(given)) for side, path, expected, given in layouts
                             if expected != given]
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, help="how many; default: what the cache holds, or 100")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--cache", metavar="DIR", help="dumps are kept and used again")
    parser.add_argument("--only-compare", action="store_true", help="no pair is made, only those in the cache are asked about")
    parser.add_argument("--record", choices=("recorded", "generator", "none"),
                        help="layout.json of the capture, as the generator would write it, or none; default: by the seed")
    parser.add_argument("--shipped", action="store_true", help="instead: the bugs that frameworks shipped (shipped_bugs.py)")
    parser.add_argument("--results", metavar="DIR", help="what compare writes stays there: <seed>, <seed>_clean")
    parser.add_argument("--kind", help="only faults of this kind")
    parser.add_argument("--json", metavar="FILE", help="every pair and its judgement, for programs; - is the screen")
    parser.add_argument("--failures", action="store_true", help="lists what was wrong, with seeds")
    parser.add_argument("--table", action="store_true", help="the rates as a table for docs/commands/compare.md")
    parser.add_argument("--jobs", type=int, default=2, help="compares that run at once")
    parser.add_argument("--msprobe", default=os.environ.get("MSPROBE", os.path.join(REPOSITORY, "build/bin/msprobe")))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msprobe_layout_") as scratch:
        cache = arguments.cache or scratch
        os.makedirs(cache, exist_ok=True)
        seeds = range(arguments.seed, arguments.seed + arguments.pairs) if arguments.pairs else None
        if arguments.only_compare:
            seeds = seeds or sorted((name for name in os.listdir(cache) if name.isdigit() != arguments.shipped),
                                    key=lambda name: (len(name), name))
            found = [pairs_on_disk.load(cache, seed) for seed in seeds]
        else:
            sys.path.insert(0, os.path.join(REPOSITORY, "build", "python"))
            import pairs
            import shipped_bugs
            found = [shipped_bugs.make(cache, name) for name in shipped_bugs.BUGS] if arguments.shipped else [pairs.make(cache, seed, arguments.record) for seed in seeds or range(arguments.seed, arguments.seed + 100)]
        found = [pair for pair in found if pair and arguments.kind in (None, pair.told["kind"])]
        results = arguments.results or os.path.join(scratch, "results")
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            lines = list(pool.map(lambda pair: ask_about(arguments.msprobe, pair, results), found))
        if arguments.json == "-":
            print(json.dumps(lines, indent=1))
        else:
            if arguments.failures:
                pairs_report.failures(lines)
                print()
            if arguments.table:
                pairs_report.table([("first sight", [line for line in lines if not arguments.shipped and line["seed"] >= FIRST_SIGHT]),
                                    ("known", [line for line in lines if arguments.shipped or line["seed"] < FIRST_SIGHT])])
            else:
                pairs_report.rates(lines)
            if arguments.json:
                with open(arguments.json, "w") as file:
                    json.dump(lines, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
