#!/usr/bin/env python3
"""What compile_check costs: one checked step of the medium GPT of capture_bench.py against compiled steps without the tool.

usage: tests/bench/compile_check_bench.py [--steps N]

Needs PyTorch 2.6 or later with inductor's C++ compiler, and a built shim (PYTHONPATH). CPU seconds of forward, backward and a plain SGD step on
one thread, each way in a process of its own: without the tool; with it, the one checked step; with it, the steps after that. Peak memory
is that of the process. Code comes from inductor's cache: the first process fills it and is not counted.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEDIUM = dict(vocab=1000, h=512, n=8, layers=4, seq=256)  # capture_bench.py
WAYS = ("without", "checked")


def work(way, steps, folder):
    """Prints a line of JSON: CPU seconds per step, peak memory in MB, counts of verdicts."""
    import resource

    import torch
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    from models import TinyGPT
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if way == "checked":
        from msprobe.pytorch import compile_check
        compile_check.start(folder, step=[2])
    model = TinyGPT(**MEDIUM)
    compiled = torch.compile(model)
    ids = torch.randint(0, MEDIUM["vocab"], (1, MEDIUM["seq"]))
    times = []
    for _ in range(steps):
        begin = time.process_time()
        loss = torch.nn.functional.cross_entropy(compiled(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        times.append(time.process_time() - begin)
    if way == "checked":
        compile_check.stop()
    print(json.dumps({"times": times, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "loss": loss.item()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--work", nargs=2)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], options.steps, options.work[1])
        return
    results = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(4):
            for way in WAYS if turn else WAYS[:1]:
                made = subprocess.run([sys.executable, __file__, "--steps", str(options.steps), "--work", way, os.path.join(folder, "%s%d" % (way, turn))],
                                      stdout=subprocess.PIPE, check=True)
                if turn:
                    results[way].append(json.loads(made.stdout.decode().strip().split("\n")[-1]))
    plain = statistics.median(second for one in results["without"] for second in one["times"][2:])
    checked = statistics.median(one["times"][2] for one in results["checked"])
    others = statistics.median(second for one in results["checked"] for second in one["times"][3:])
    peaks = [statistics.median(one["peak"] for one in results[way]) for way in WAYS]
    print("compiled step without the tool   %.3f s, peak %.0f MB" % (plain, peaks[0]))
    print("checked step                     %.3f s, %.2f times, peak %.0f MB, %.2f times" % (checked, checked / plain, peaks[1], peaks[1] / peaks[0]))
    print("steps that are not checked       %.3f s, %.3f times" % (others, others / plain))
    print("same loss: %s" % (len({one["loss"] for way in WAYS for one in results[way]}) == 1))


if __name__ == "__main__":
    main()
