"""What the task grad_probe costs: CPU seconds of an optimizer's step with the gradients of a small GPT, a process per level.

usage: grad_probe_bench.py [--peer FOLDER] [--steps N]

The model is that of the published figures of the Python tool: 2 layers, width 128, 4 heads, 64 tokens, batch 4, 512 words, SGD; 29
parameters of 0.54 million elements. PYTHONPATH leads to msprobe; --peer: a folder that takes its place, in which the Python tool is
installed. Both run this script.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = ("L0", "L1", "L2")


def train(level, steps):
    import torch
    import torch.nn.functional as F
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    from models import TinyGPT
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = TinyGPT(512, 128, 4, 2, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if level != "plain":
        from msprobe.pytorch import PrecisionDebugger
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump({"task": "grad_probe", "dump_path": tempfile.mkdtemp(), "rank": [], "step": [],
                       "grad_probe": {"grad_level": level, "param_list": [], "bounds": [-1, 0, 1]}}, file)
        PrecisionDebugger(file.name).monitor(model)
    seconds = []
    for _ in range(steps + 2):
        words = torch.randint(0, 512, (4, 65))
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        begin = time.process_time()
        optimizer.step()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds[2:])


def measure(place, level, steps):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=place)
    run = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", level, "--steps", str(steps)], env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    lines = run.stdout.decode().split()
    if run.returncode != 0:
        sys.stderr.write(run.stderr.decode()[-600:])
    return float(lines[-1]) if run.returncode == 0 else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        print(train(given.worker, given.steps))
        return
    places = [os.environ.get("PYTHONPATH", "")] + ([given.peer] if given.peer else [])
    print("| level | %s |" % " | ".join(["msprobe", "Python tool"][:len(places)]))
    for level in ("plain",) + LEVELS:
        print("| %s | %s |" % (level, " | ".join("%.2f ms" % (measure(place, level, given.steps) * 1e3) for place in places)), flush=True)


if __name__ == "__main__":
    main()
