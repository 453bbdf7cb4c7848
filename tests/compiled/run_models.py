#!/usr/bin/env python3
"""Checks the compiled graphs of models.py, whole or with faults planted in the generated code, and counts.

    run_models.py [NAME...] [--faults N] [--seed S] [--json FILE]

Without --faults: what of unpatched kernels is right, wrong or not checked. With it: so many faults, one at a time; a fault counts where
it moves an output by more than the bound that the check gives it, which is measured by running the kernel as it was generated on the
same inputs.
"""
import argparse
import collections
import csv
import json
import os
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402
from msprobe.pytorch import compile_check  # noqa: E402


def check(name, folder):
    torch.manual_seed(7)
    torch._dynamo.reset()
    compile_check.start(folder)
    try:
        function, calls = models.MODELS[name]()
        for args in calls:
            function(*args)
    finally:
        compile_check.stop()
    path = os.path.join(folder, "compile_check.csv")
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    options = parser.parse_args()
    names = options.names or list(models.MODELS)
    if options.faults:
        import faults
        result = faults.campaign(names, options.faults, options.seed, check)
    else:
        result = {}
        total = collections.Counter()
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    rows = check(name, folder)
                except Exception as error:
                    print("%-16s %s: %s" % (name, type(error).__name__, str(error)[:200]))
                    continue
            counts = collections.Counter(row["verdict"] for row in rows if row["kernel"] != "graph")
            graph = collections.Counter(row["verdict"] for row in rows if row["kernel"] == "graph")
            total += counts
            result[name] = dict(counts)
            print("%-16s %s   outputs of graphs %s" % (name, dict(counts), dict(graph)))
            for row in rows:
                if row["verdict"] == "wrong" or row["verdict"] == "not checked" and row["kernel"] != "graph":
                    print("    %(verdict)s %(graph)s %(kernel).50s %(output)s %(nodes).60s error %(error)s bound %(bound)s: %(reason).110s" % row)
            sys.stdout.flush()
        print("all", dict(total))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
