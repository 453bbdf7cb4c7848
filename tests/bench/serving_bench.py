#!/usr/bin/env python3
"""What a capture costs a server on a slow disk: wall time of its forwards (p50, p99, longest) without the tool and with it.

usage: tests/bench/serving_bench.py [--forwards N] [--rate BYTES_PER_S] [--mode MODE]... [--folder DIR]

Needs a built shim (build/python, or another one that PYTHONPATH leads to), a Python with PyTorch and a C compiler. The server is that of
tests/python/torch/serving_runner.py with 4 layers of width 128 and about 40 requests at a time, which join and leave. Every mode runs in a
process of its own. What is written below the folder takes as long as a disk of --rate bytes per second (default 20 MB/s), one write at a
time (tests/bench/slow_disk.c). The first 20 forwards are not counted.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import measured_tool

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNCOUNTED = 20
# name: keys of the configuration; None: the tool is not even imported
MODES = {
    "without": None,
    "switched off": {"level": "mix", "dump_enable": False},
    "statistics L0": {"level": "L0"},
    "statistics L0, 5 ms": {"level": "L0", "max_overhead_ms": 5},
    "statistics mix": {"level": "mix"},
    "statistics mix, 5 ms": {"level": "mix", "max_overhead_ms": 5},
    "tensor L0": {"task": "tensor", "level": "L0"},
    "tensor L0, 5 ms": {"task": "tensor", "level": "L0", "max_overhead_ms": 5},
    "tensor L0, 5 ms, 10 MB/s": {"task": "tensor", "level": "L0", "max_overhead_ms": 5, "max_bytes_per_s": 10_000_000},
}


def arriving(forwards):
    return {step: [("r%d-%d" % (step, i), [(step + i) % 32] * (1 + (3 * step + i) % 7), 10 + (step + i) % 20)
                   for i in range(2)] for step in range(forwards)}


def serve(folder, forwards):
    sys.path.insert(0, os.path.join(ROOT, "tests", "python", "torch"))
    import torch
    torch.set_num_threads(1)
    from serving_runner import Runner, serve as serve_requests
    config = os.path.join(folder, "config.json")
    debugger = None
    if os.path.exists(config):
        from msprobe.pytorch import PrecisionDebugger
        debugger = PrecisionDebugger(config_path=config)
    runner = Runner(debugger, width=128, layers=4)
    times, execute = [], runner.execute_model

    def timed(requests):
        begin = time.perf_counter()
        execute(requests)
        times.append(time.perf_counter() - begin)

    runner.execute_model = timed
    serve_requests(runner, arriving(forwards))
    answer = {"times": times}
    if debugger is not None:
        from msprobe import _native
        answer["totals"] = _native.totals()
        begin = time.perf_counter()
        debugger._session.close()
        answer["close"] = time.perf_counter() - begin
    print(json.dumps(answer))


def run(mode, forwards, rate, place, preload):
    folder = tempfile.mkdtemp(prefix="msprobe_serving_", dir=place)
    try:
        keys = MODES[mode]
        if keys is not None:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(dict({"task": "statistics", "dump_path": os.path.join(folder, "dump")}, **keys), file)
        environment = dict(os.environ, OMP_NUM_THREADS="1", LD_PRELOAD=preload, SLOW_DISK_FOLDER=os.path.join(folder, "dump"),
                           SLOW_DISK_BYTES_PER_S=str(rate))
        output = subprocess.run([sys.executable, __file__, "--serve", folder, "--forwards", str(forwards)], env=environment,
                                stdout=subprocess.PIPE, check=True).stdout
        return json.loads(output.splitlines()[-1])
    finally:
        shutil.rmtree(folder, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forwards", type=int, default=300)
    parser.add_argument("--rate", type=float, default=20e6)
    parser.add_argument("--mode", action="append", choices=list(MODES))
    parser.add_argument("--folder", default=None)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is None:
        os.environ["PYTHONPATH"] = measured_tool.place_of()
    if options.serve:
        serve(options.serve, options.forwards)
        return
    with tempfile.TemporaryDirectory() as built:
        preload = os.path.join(built, "slow_disk.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", preload, os.path.join(ROOT, "tests", "bench", "slow_disk.c"), "-ldl"],
                       check=True)
        print("| mode | p50 ms | p99 ms | longest ms | steps | calls | dropped calls | files | dropped files | dropped steps | end s |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for mode in options.mode or MODES:
            answer = run(mode, options.forwards, options.rate, options.folder, preload)
            times = sorted(1e3 * seconds for seconds in answer["times"][UNCOUNTED:])
            totals = answer.get("totals", {})
            print("| %s | %.1f | %.1f | %.1f | %s | %.1f |" % (
                mode, times[len(times) // 2], times[min(len(times) * 99 // 100, len(times) - 1)], times[-1],
                " | ".join(str(totals.get(key, "")) for key in ("steps", "entries", "dropped_records", "tensor_files", "dropped_files",
                                                                "dropped_steps")), answer.get("close", 0)), flush=True)


if __name__ == "__main__":
    main()
