"""What free_benchmark costs: CPU seconds per training step of a small GPT on one thread, a process per mode.

usage: free_benchmark_bench.py [--peer FOLDER] [--steps N] [--dtype float32|bfloat16]

The model is that of small_gpt.py. PYTHONPATH leads to msprobe; --peer: a folder that takes its place, in which the Python tool is
installed. Both run this script.
"""
import argparse
import json
import os
import statistics
import time

import measured_tool
import small_gpt

MODES = [("forward", names, mode) for names in ([], ["softmax"])
         for mode in ("no_change", "add_noise", "bit_noise", "change_value", "improve_precision", "to_cpu")]
MODES += [("backward", [], mode) for mode in ("no_change", "add_noise", "to_cpu")]
MODES += [("backward", ["softmax"], "add_noise")]


def train(section, steps, dtype):
    import torch.nn.functional as F
    model, optimizer = small_gpt.make(dtype)
    debugger = small_gpt.free_benchmark_debugger(section) if section else None
    seconds = []
    for _ in range(steps + 2):
        words = small_gpt.batch()
        begin = time.process_time()
        if debugger:
            debugger.start()
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if debugger:
            debugger.stop()
        optimizer.step()
        if debugger:
            debugger.step()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds[2:])


def measure(place, section, given):
    return small_gpt.seconds_of(json.dumps(section), "--steps", str(given.steps), "--dtype", given.dtype, place=place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        print(train(json.loads(given.worker), given.steps, given.dtype))
        return
    places = [measured_tool.place_of()] + ([measured_tool.place_of(given.peer)] if given.peer else [])
    plain = [measure(place, {}, given) for place in places]
    print("| stage | list | mode | msprobe | %s" % ("Python tool | ratio of what is added |" if given.peer else ""))
    print("plain step, %s: %s ms" % (given.dtype, " / ".join("%.1f" % (value * 1e3) for value in plain)))
    for stage, names, mode in MODES:
        section = {"scope": [], "list": names, "fuzz_device": "cpu" if mode == "to_cpu" else "npu", "pert_mode": mode,
                   "handler_type": "check", "fuzz_level": "L1", "fuzz_stage": stage, "if_preheat": False}
        times = [measure(place, section, given) for place in places]
        cells = ["%.1f ms (x%.2f)" % (value * 1e3, value / base) for value, base in zip(times, plain)]
        if given.peer:
            cells.append("%.1f" % ((times[1] - plain[1]) / max(times[0] - plain[0], 1e-9)))
        print("| %s | %s | %s | %s |" % (stage, json.dumps(names), mode, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
