"""What free_benchmark costs per call: CPU time of small and of large operators, called once after the other in a training's step, on one
thread, a process per figure.

usage: free_benchmark_calls_bench.py [--peer FOLDER] [--calls N] [--operators NAME...]

PYTHONPATH leads to msprobe; --peer: a folder that takes its place, in which the Python tool is installed. Both run this script.

"by hand" is what nobody can do without, written with PyTorch's own functions: the call, a changed copy of its input (but for no_change), the
call once more, and both results read once, as their dot product. Of a backward pass likewise: both passes, and the gradients read. Both are
timed by turns in one process: "by hand = 1" is the median of what msprobe takes in units of the turn before. The C library is told to keep
what is freed: whether it gives 32 MiB back after a call, and takes them again page by page, is a matter of chance, and as long as the call.
"""
import argparse
import json
import math
import os
import statistics
import time

import measured_tool
import small_gpt

SIZES = {"4 x 8": (4, 8), "2048 x 2048": (2048, 2048)}
OPERATORS = ("softmax", "linear", "add")
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 33), "MALLOC_MMAP_THRESHOLD_": str(1 << 33)}
MODES = [(stage, mode) for stage in ("forward", "backward") for mode in ("no_change", "add_noise")]


def call_of(name, shape):
    """(the operator on one argument, its argument)"""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    torch.manual_seed(1)
    given = torch.randn(shape)
    weight = torch.randn(shape[1], shape[1])
    return {"softmax": lambda x: F.softmax(x, -1), "linear": lambda x: F.linear(x, weight),
            "add": lambda x: torch.add(x, given)}[name], given.clone()


def by_hand(call, given, incoming, work):
    """What measure() has done with each call where no tool is there to do it."""
    import torch

    def once(x):
        if work["stage"] == "forward":
            return call(x)
        leaf = x.detach().requires_grad_()
        call(leaf).backward(incoming)
        return leaf.grad

    first = once(given)
    second = once(given if work["mode"] == "no_change" else given + 1e-8)
    torch.dot(first.view(-1), second.view(-1))


def measure(work):
    """CPU seconds per call, the median of five steps, of which two more are not counted; in units of by_hand() where that is asked for, of 20."""
    import torch
    call, given = call_of(work["operator"], work["shape"])
    incoming = torch.ones(call(given).shape)
    section = {"scope": [], "list": [], "fuzz_device": "npu", "pert_mode": work["mode"], "handler_type": "check", "fuzz_level": "L1",
               "fuzz_stage": work["stage"], "if_preheat": False}
    debugger = small_gpt.free_benchmark_debugger(section) if work["mode"] else None

    def plainly():
        if work["stage"] == "backward":
            # A new leaf each time: the Python tool leaves a hook with it.
            call(given.detach().requires_grad_()).backward(incoming)
        else:
            call(given)

    def seconds(what):
        begin = time.process_time()
        for _ in range(work["calls"]):
            what()
        return (time.process_time() - begin) / work["calls"]

    found = []
    for _ in range(22 if work.get("by_hand") else 7):
        unit = seconds(lambda: by_hand(call, given, incoming, work)) if work.get("by_hand") else 1
        if debugger:
            debugger.start()
        found.append(seconds(plainly) / unit)
        if debugger:
            debugger.stop()
            debugger.step()
    return statistics.median(found[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--calls", type=int, default=200, help="of a small operator; of a large one a fiftieth")
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=OPERATORS, help="default all")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        print(measure(json.loads(given.worker)))
        return
    os.environ.update(KEEP_MEMORY)
    places = [measured_tool.place_of()] + ([measured_tool.place_of(given.peer)] if given.peer else [])
    print("| elements | operator | stage | mode | plain us | msprobe us | by hand = 1 | Python tool us | its addition by ours |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size, shape in SIZES.items():
        calls = given.calls if math.prod(shape) < 1000 else max(given.calls // 50, 1)
        for operator in given.operators:
            plain = {}
            for stage, mode in MODES:
                work = {"operator": operator, "shape": shape, "stage": stage, "mode": None, "calls": calls}
                if stage not in plain:
                    plain[stage] = small_gpt.seconds_of(json.dumps(work), place=places[0])
                relative = small_gpt.seconds_of(json.dumps(dict(work, mode=mode, by_hand=True)), place=places[0])
                times = [small_gpt.seconds_of(json.dumps(dict(work, mode=mode)), place=place) for place in places]
                ratio = (times[1] - plain[stage]) / (times[0] - plain[stage]) if given.peer else math.nan
                print("| %s | %s | %s | %s | %.1f | %.1f | %.2f | %s | %.1f |" % (
                    size, operator, stage, mode, plain[stage] * 1e6, times[0] * 1e6, relative,
                    "%.1f" % (times[1] * 1e6) if given.peer else "", ratio), flush=True)


if __name__ == "__main__":
    main()
