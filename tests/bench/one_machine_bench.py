"""What the answers of docs/how-to/no-second-machine.md cost: CPU seconds per training step of a small GPT on one thread, a process per
line.

usage: one_machine_bench.py [--steps N] [--dtype float32|bfloat16]

The model is that of free_benchmark_bench.py: 2 layers, width 128, 4 heads, 64 tokens, batch 4, 512 words, SGD. PYTHONPATH leads to msprobe.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


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
    import torch
    import torch.nn.functional as F
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    from models import TinyGPT
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = TinyGPT(512, 128, 4, 2, 64).to(getattr(torch, dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seconds = []

    def step(debugger=None, block=contextlib.nullcontext()):
        words = torch.randint(0, 512, (4, 65))
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
    with tempfile.TemporaryDirectory() as folder:
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


def measure(settings, given):
    run = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", json.dumps(settings), "--steps", str(given.steps),
                          "--dtype", given.dtype], env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.exit("%s failed:\n%s" % (settings, run.stderr.decode()[-2000:]))
    return float(run.stdout.decode().split()[-1])


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
        seconds = measure(settings, given)
        plain = plain or seconds
        print("| %s | %.1f | %.2f |" % (title, seconds * 1e3, seconds / plain), flush=True)


if __name__ == "__main__":
    main()
