#!/usr/bin/env python3
"""What `msprobe recheck` takes for a training step, beside the step itself: CPU seconds on one thread.

usage: tests/bench/recheck_bench.py [--model tiny|medium] [--runs N]

Models are those of capture_bench.py, float32, with Adam behind the captured region. Given is the median of N runs. Needs build/bin/msprobe, a
built shim (build/python, or another one that PYTHONPATH leads to) and a Python with PyTorch. How near products of matrices come to the peak of the
machine: build-bench/tests/bench/kernels_bench --benchmark_filter=MultiplyMatrices (cmake --preset bench).
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import measured_tool
from capture_bench import MODELS, ROOT


def train(model_name, folder, runs):
    """Prints the median of the CPU seconds of a step; then captures one."""
    import torch
    import torch.nn.functional as functional
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    from models import TinyGPT
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = dict(MODELS[model_name])
    shape.pop("steps")
    batch = shape.pop("batch")
    model = TinyGPT(**shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        ids = torch.randint(0, shape["vocab"], (batch, shape["seq"]))
        functional.cross_entropy(model(ids).view(-1, shape["vocab"]), ids.view(-1)).backward()

    seconds = []
    for number in range(runs + 2):
        begin = time.process_time()
        step()
        if number >= 2:
            seconds.append(time.process_time() - begin)
        optimizer.step()
        optimizer.zero_grad()
    from msprobe.pytorch import PrecisionDebugger
    debugger = PrecisionDebugger(dump_path=os.path.join(folder, "dump"), task="tensor", level="L1")
    debugger.start(model=model)
    step()
    debugger.stop()
    debugger.step()
    print(statistics.median(seconds))


def recheck(dump):
    """(CPU seconds, first line of its answer)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([os.path.join(ROOT, "build", "bin", "msprobe"), "recheck", dump, "--threads", "1"], stdout=subprocess.PIPE,
                           check=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended.stdout.splitlines()[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(MODELS), default="medium")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--train", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.model, given.train, given.runs)
        return
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment["PYTHONPATH"] = measured_tool.place_of()
    with tempfile.TemporaryDirectory(prefix="recheck_bench_") as folder:
        step = float(subprocess.run([sys.executable, os.path.abspath(__file__), "--model", given.model, "--runs", str(given.runs), "--train", folder],
                                    env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout.split()[-1])
        size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)
        answers = [recheck(os.path.join(folder, "dump")) for _ in range(given.runs)]
    seconds = statistics.median(seconds for seconds, _ in answers)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print("step     %8.3f s CPU, %s" % (step, given.model))
    print("dump     %8.1f MB" % (size / 1e6))
    print("recheck  %8.3f s CPU, %.2f times the step; peak of all processes %d MB" % (seconds, seconds / step, peak // 1024))
    print(answers[0][1])


if __name__ == "__main__":
    main()
