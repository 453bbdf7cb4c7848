"""What the answers of docs/how-to/no-second-machine.md cost: CPU seconds per training step of a small GPT on one thread, a process per
line.

usage: one_machine_bench.py [--steps N] [--dtype float32|bfloat16]

The model is that of small_gpt.py. PYTHONPATH leads to msprobe.
"""
import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time

import small_gpt


def capture(**settings):
    return dict({"rank": [], "step": [], "level": "L1"}, **settings)


# (what it is, the configuration)
ROWS = [
    ("plain", None),
    ("dump, statistics, for `nan_analyze`", capture(task="statistics", level="mix")),
    ("dump, tensors, for `run_ut`", capture(task="tensor")),
    ("free_benchmark, softmax alone", capture(task="free_benchmark", free_benchmark={"pert_mode": "add_noise", "list": ["softmax"]})),
    ("free_benchmark, all calls, forward", capture(task="free_benchmark", free_benchmark={"pert_mode": "add_noise"})),
    ("free_benchmark, all calls, backward",
     capture(task="free_benchmark", free_benchmark={"pert_mode": "add_noise", "fuzz_stage": "backward"})),
    ("free_benchmark, every tenth call",
     capture(task="free_benchmark", free_benchmark={"pert_mode": "add_noise", "every_n_calls": 10})),
    ("dump --repeat 5", capture(task="statistics", repeat=5)),
    ("isolate", {"task": "isolate"}),
    ("grad_probe, L1", {"task": "grad_probe", "grad_probe": {"grad_level": "L1"}}),
    ("PtdbgDispatch", {"task": "online_dispatch"}),
]


def train(settings, steps, dtype):
    import torch.nn.functional as F
    model, optimizer = small_gpt.make(dtype)
    seconds = []

    def step(debugger=None, block=contextlib.nullcontext()):
        words = small_gpt.batch()
        begin = time.process_time()
        if debugger:
            debugger.start(model)
        with block:
            loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1).float(), words[:, 1:].flatten())
        optimizer.zero_grad()
        with block:
            loss.backward()
        if debugger:
            debugger.stop()
        optimizer.step()
        if debugger:
            debugger.step()
        seconds.append(time.process_time() - begin)

    task = settings["task"] if settings else ""
    folder = tempfile.mkdtemp()
    if task == "isolate":
        return isolated(model, step, folder, seconds)
    debugger, block = None, contextlib.nullcontext()
    if task == "online_dispatch":
        from msprobe.pytorch import PtdbgDispatch
        block = PtdbgDispatch(dump_path=folder)
    elif task:
        from msprobe.pytorch import PrecisionDebugger
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(settings, dump_path=os.path.join(folder, "out")), file)
        debugger = PrecisionDebugger(path)
        if task == "grad_probe":
            debugger.monitor(model)
            debugger = None
    for _ in range(steps + 2):
        step(debugger, block)
    return statistics.median(seconds[2:])


def isolated(model, step, folder, seconds):
    """One step is all that it runs: two plain ones first, so that no first use is counted. The reference is made in a process of
    its own: there is one debugger per process."""
    import torch
    reference = os.path.join(folder, "good")
    step()
    step()
    child = os.fork()
    if child == 0:
        from msprobe.pytorch import PrecisionDebugger
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"task": "tensor", "level": "L0", "dump_path": reference, "rank": [], "step": []}, file)
        torch.manual_seed(2)
        debugger = PrecisionDebugger(path)
        step(debugger)
        debugger._session.close()
        os._exit(0)
    os.waitpid(child, 0)
    from msprobe.pytorch import PrecisionDebugger
    torch.manual_seed(2)
    step(PrecisionDebugger.isolate(reference, output=os.path.join(folder, "isolated")))
    return seconds[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        print(train(json.loads(given.worker), given.steps, given.dtype))
        return
    print("| what | CPU ms per step, %s | times the plain step |" % given.dtype)
    print("|---|---|---|")
    plain = None
    for title, settings in ROWS:
        seconds = small_gpt.seconds_of(json.dumps(settings), "--steps", str(given.steps), "--dtype", given.dtype)
        if math.isnan(seconds):
            sys.exit(1)
        plain = plain or seconds
        print("| %s | %.1f | %.2f |" % (title, seconds * 1e3, seconds / plain), flush=True)


if __name__ == "__main__":
    main()
