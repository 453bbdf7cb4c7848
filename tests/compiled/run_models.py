#!/usr/bin/env python3
"""Checks the compiled graphs of models.py, whole or with faults planted in the generated code, and counts.

    run_models.py [NAME...] [--faults N] [--seed S] [--seconds N] [--harmless] [--against eager] [--json FILE]

Without --faults: what of unpatched kernels is right, wrong or not checked. With it: so many faults, one at a time; a fault counts where
it moves an output by more than the bound that the check gives it, which is measured by running the kernel as it was generated on the
same inputs. Several seeds add up. With --harmless: whether results, gradients, parameters and the state of random numbers are the same bits with and without a check,
and no graph is compiled more often.
"""
import argparse
import collections
import csv
import hashlib
import json
import os
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402
from msprobe.pytorch import compile_check  # noqa: E402


def run(name):
    """What the calls of a program return."""
    torch.manual_seed(7)
    torch._dynamo.reset()
    function, calls = models.MODELS[name]()
    return [function(*args) for args in calls]


def state_after(name):
    """Digests of everything that a program leaves, and how many graphs were compiled."""
    parameters = []
    handle = torch.nn.modules.module.register_module_parameter_registration_hook(lambda module, key, parameter: parameters.append(parameter))
    torch._dynamo.utils.counters.clear()
    try:
        results = run(name)
    finally:
        handle.remove()
    tensors = [torch.get_rng_state()]
    torch.utils._pytree.tree_map_only(torch.Tensor, tensors.append, results)
    for parameter in parameters:
        if parameter is not None:
            tensors += [parameter.detach()] + ([parameter.grad] if parameter.grad is not None else [])
    digests = [hashlib.sha256(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest() for tensor in tensors if tensor.numel()]
    return digests, dict(torch._dynamo.utils.counters["stats"])


def harmless(names):
    changed = []
    for name in names:
        without = state_after(name)
        with tempfile.TemporaryDirectory() as folder:
            compile_check.start(folder, step=None, repro=os.path.join(folder, "alone"), against="eager")
            try:
                with_check = state_after(name)
            finally:
                compile_check.stop()
        same = without == with_check
        print("%-16s %s: %d tensors, %s" % (name, "the same" if same else "CHANGED", len(without[0]), without[1]), flush=True)
        if not same:
            changed.append(name)
    return {"programs": len(names), "changed": changed}


def check(name, folder, **options):
    compile_check.start(folder, **options)
    try:
        run(name)
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
    parser.add_argument("--seconds", type=float, help="no further fault after so many")
    parser.add_argument("--harmless", action="store_true")
    parser.add_argument("--against", choices=["eager"])
    parser.add_argument("--json")
    options = parser.parse_args()
    names = options.names or list(models.MODELS)
    if options.harmless:
        result = harmless(names)
        print(result)
    elif options.faults:
        import faults
        result = faults.campaign(names, options.faults, options.seed, lambda name, folder: check(name, folder, step=None), options.seconds)
    else:
        result = {}
        total = collections.Counter()
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    rows = check(name, folder, against=options.against)
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
