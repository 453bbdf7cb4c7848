#!/usr/bin/env python3
"""No memory in the middle of a call from Python: the training goes on with the same numbers, and what is lost is counted.

usage: extension_test.py INJECTOR [PLACES]

One training; in each of its steps another allocation fails that the extension, or the engine behind it, asks for.
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TASKS = [("statistics", "mix"), ("tensor", "L1")]


def run_anew(injector, arguments, case):
    """This program again, in a folder of its own and with the injector before every library; its exit code."""
    with tempfile.TemporaryDirectory(prefix="msprobe_extension_") as folder:
        plan = Path(folder, "plan")
        plan.write_text("program %s\ncaller /msprobe/\n" % Path(sys.executable).name)
        return subprocess.run([sys.executable, os.path.abspath(__file__), injector, *arguments], check=False, cwd=folder,
                              env=dict(os.environ, LD_PRELOAD=injector, FAULT_PLAN=str(plan), MSPROBE_FAULT_TASK=" ".join(case))).returncode


def main():
    injector = sys.argv[1]
    places = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: skipped")
        return 77
    refuse = ctypes.CDLL(injector).fault_refuse_memory
    refuse.restype = ctypes.c_long
    refuse.argtypes = [ctypes.c_long, ctypes.c_long]
    from msprobe.pytorch import PrecisionDebugger
    torch.set_num_threads(1)

    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    given = torch.randn(3, 4)

    def train():
        model.zero_grad()
        loss = model(given).square().sum()
        loss.backward()
        return loss.item(), [parameter.grad.clone() for parameter in model.parameters()]

    wanted = train()
    task, level = os.environ["MSPROBE_FAULT_TASK"].split()
    Path("config.json").write_text(json.dumps({"task": task, "level": level, "dump_path": "dump"}))
    debugger = PrecisionDebugger("config.json")

    def step(first, last):
        """One step of which some allocations fail; (allocations, what the debugger raised)."""
        raised = []

        def ask(function, *arguments):
            try:
                function(*arguments)
            except MemoryError:
                raised.append(function.__name__)

        refuse(first, last)
        ask(debugger.start, model)
        got = train()
        ask(debugger.stop)
        ask(debugger.step)
        count = refuse(0, 0)
        assert got[0] == wanted[0], "another loss: %r" % got[0]
        assert all(map(torch.equal, got[1], wanted[1])), "other gradients"
        if raised:  # what could not begin or end does so now
            debugger.stop()
            debugger.step()
        return count, raised

    step(0, 0)
    step(0, 0)
    total, _ = step(10 ** 9, 0)
    assert total > 100, "the extension is not seen: %d allocations" % total
    chosen = sorted({1 + place * total // places for place in range(places)})
    refused = 0
    for last_too in (False, True):
        for place in chosen:
            refused += bool(step(place, 0 if last_too else place)[1])
    step(0, 0)
    debugger.stop()
    steps = sorted(Path("dump").glob("step*"), key=lambda path: int(path.name[4:]))
    lost = 0
    for folder in steps:
        manifest = next(folder.glob("*/manifest.json"), None)
        lost += manifest is None or not json.loads(manifest.read_text())["complete"]
    print("%s %s: %d allocations in a step, %d steps with faults: %d times MemoryError, %d steps not complete" %
          (task, level, total, 2 * len(chosen), refused, lost))
    whole = json.loads(next(steps[-1].glob("*/manifest.json")).read_text())
    assert whole["complete"], "the step after the last fault is not complete"
    return 0


if __name__ == "__main__":
    if "MSPROBE_FAULT_TASK" in os.environ:
        sys.exit(main())
    for task_and_level in TASKS:
        code = run_anew(os.path.abspath(sys.argv[1]), sys.argv[2:], task_and_level)
        if code != 0:
            sys.exit(code)
