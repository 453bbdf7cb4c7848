"""What the task grad_probe costs: CPU seconds of an optimizer's step with the gradients of a small GPT, a process per level.

usage: grad_probe_bench.py [--peer FOLDER] [--steps N]

The model is that of small_gpt.py. PYTHONPATH leads to msprobe; --peer: a folder that takes its place, in which the Python tool is
installed. Both run this script.
"""
import argparse
import json
import os
import statistics
import tempfile
import time

import measured_tool
import small_gpt

LEVELS = ("L0", "L1", "L2")


def train(level, steps):
    import torch.nn.functional as F
    model, optimizer = small_gpt.make()
    if level != "plain":
        from msprobe.pytorch import PrecisionDebugger
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump({"task": "grad_probe", "dump_path": tempfile.mkdtemp(), "rank": [], "step": [],
                       "grad_probe": {"grad_level": level, "param_list": [], "bounds": [-1, 0, 1]}}, file)
        PrecisionDebugger(file.name).monitor(model)
    seconds = []
    for _ in range(steps + 2):
        words = small_gpt.batch()
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        begin = time.process_time()
        optimizer.step()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        print(train(given.worker, given.steps))
        return
    places = [measured_tool.place_of()] + ([measured_tool.place_of(given.peer)] if given.peer else [])
    print("| level | %s |" % " | ".join(["msprobe", "Python tool"][:len(places)]))
    for level in ("plain",) + LEVELS:
        times = [small_gpt.seconds_of(level, "--steps", str(given.steps), place=place) for place in places]
        print("| %s | %s |" % (level, " | ".join("%.2f ms" % (value * 1e3) for value in times)), flush=True)


if __name__ == "__main__":
    main()
