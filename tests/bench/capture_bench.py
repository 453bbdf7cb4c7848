#!/usr/bin/env python3
"""What a capture costs: CPU time per training step without the tool, and with it in every mode.

usage: tests/bench/capture_bench.py [--quick] [--model tiny|medium|large] [--mode MODE]... [--device cuda] [--folder DIR]

Needs a built shim (build/python, or another one that PYTHONPATH leads to) and a Python with PyTorch. Every mode runs in a
process of its own on one thread; given is the median over the steps after two that are not counted, Adam inside the
captured region. On a GPU the step's time until the device has done it counts more (column "wall x"). The first line names the tool
that is measured. Then the writer: bytes per second to tensor files beside a plain sequential write to the same disk.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import measured_tool

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = {
    "tiny": dict(vocab=32, h=16, n=2, layers=2, seq=8, batch=2, steps=30),
    "medium": dict(vocab=1000, h=512, n=8, layers=4, seq=256, batch=1, steps=3),
    "large": dict(vocab=32000, h=2048, n=16, layers=12, seq=1024, batch=2, steps=3),   # 0.7 billion parameters, for a GPU
}
# name: (task, level, further keys of the task's section), None: the tool is not even imported
MODES = {
    "without": None,
    "never started": ("statistics", "mix", {}),
    "structure mix": ("structure", "mix", {}),
    "statistics L0": ("statistics", "L0", {}),
    "statistics L1": ("statistics", "L1", {}),
    "statistics mix": ("statistics", "mix", {}),
    "md5 L1": ("statistics", "L1", {"summary_mode": "md5"}),
    "md5 mix": ("statistics", "mix", {"summary_mode": "md5"}),
    "tensor L0": ("tensor", "L0", {}),
    "tensor L1": ("tensor", "L1", {}),
    "tensor mix": ("tensor", "mix", {}),
}
UNCOUNTED_STEPS = 2


def write_config(folder, task, level, section):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"),
                   "rank": [], "step": [], task: section}, file)
    return path


def count_dump(dump):
    """Bytes on disk (a file with several names once), bytes by name, file names and tensors described, of one step."""
    seen, disk, named, files, tensors = set(), 0, 0, 0, 0
    for folder, _, names in os.walk(dump):
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            if name == "dump.json":
                with open(path, encoding="utf-8") as file:
                    tensors += file.read().count('"type": "torch.Tensor"')
            files += 1
            named += status.st_size
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                disk += status.st_size
    return dict(disk=disk, named=named, files=files, tensors=tensors)


def empty_files(folder):
    """Gives the blocks back but keeps the names: some file systems create files slowly for a while after many were deleted."""
    for place, _, names in os.walk(folder):
        for name in names:
            os.truncate(os.path.join(place, name), 0)


def run_worker(arguments):
    """Trains in this process; prints one line of JSON."""
    import torch
    import torch.nn.functional as functional
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    from models import TinyGPT

    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = dict(MODELS[arguments.model])
    steps, batch = (4 if arguments.quick else shape.pop("steps")), shape.pop("batch")
    shape.pop("steps", None)
    mode = MODES[arguments.worker]
    debugger = None
    if mode is not None:
        from msprobe.pytorch import PrecisionDebugger
        debugger = PrecisionDebugger(config_path=write_config(arguments.folder, *mode))
    device, on_gpu = arguments.device, arguments.device != "cpu"
    model = TinyGPT(**shape).to(device)
    if arguments.model == "large":
        model = model.bfloat16()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(7)
    dump = os.path.join(arguments.folder, "dump")
    cpu, wall, counts = [], [], None
    for step in range(UNCOUNTED_STEPS + steps):
        ids = torch.randint(0, shape["vocab"], (batch, shape["seq"]), generator=generator).to(device)
        if on_gpu:
            torch.cuda.synchronize()
        begin_cpu, begin_wall = time.process_time(), time.perf_counter()
        if debugger is not None and arguments.worker != "never started":
            debugger.start(model=model)
        logits = model(ids)
        loss = functional.cross_entropy(logits.view(-1, shape["vocab"]).float(), ids.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if debugger is not None and arguments.worker != "never started":
            debugger.stop()
            debugger.step()
        if on_gpu:
            torch.cuda.synchronize()
        if step >= UNCOUNTED_STEPS:
            cpu.append(time.process_time() - begin_cpu)
            wall.append(time.perf_counter() - begin_wall)
        step_folder = os.path.join(dump, f"step{step}")
        if os.path.isdir(step_folder):
            counts = count_dump(step_folder)
            empty_files(step_folder)
    print(json.dumps(dict(cpu=statistics.median(cpu), wall=statistics.median(wall), counts=counts)))


def measure(model, mode, device, quick, scratch):
    folder = tempfile.mkdtemp(dir=scratch)
    command = [sys.executable, os.path.abspath(__file__), "--worker", mode, "--model", model, "--folder", folder, "--device", device]
    done = subprocess.run(command + (["--quick"] if quick else []), stdout=subprocess.PIPE, check=True,
                          env={**os.environ, "MSPROBE_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def print_table(model, modes, device, quick, scratch):
    print(f"\n{model} GPT on {device}: {MODELS[model]}")
    print(f"{'mode':16} {'cpu ms':>9} {'x':>6} {'wall ms':>9} {'wall x':>7} {'us/tensor':>10} {'tensors':>8} {'files':>6} {'MB named':>9} {'MB disk':>8}")
    base = None
    for mode in modes:
        result = measure(model, mode, device, quick, scratch)
        base = base or result
        counts = result["counts"] or dict(disk=0, named=0, files=0, tensors=0)
        added = (result["cpu"] - base["cpu"]) * 1e6 / counts["tensors"] if counts["tensors"] else 0
        print(f"{mode:16} {result['cpu'] * 1e3:9.2f} {result['cpu'] / base['cpu']:6.2f} {result['wall'] * 1e3:9.2f}"
              f" {result['wall'] / base['wall']:7.2f}"
              f" {added:10.2f} {counts['tensors']:8d} {counts['files']:6d} {counts['named'] / 1e6:9.2f}"
              f" {counts['disk'] / 1e6:8.2f}", flush=True)


def run_writer(folder, mebibytes):
    """Seconds from the first record to the end of the step for distinct tensors of 4 MiB, files on disk."""
    import torch
    from msprobe.pytorch import PrecisionDebugger
    tensors = [torch.rand(1 << 20) for _ in range(16)]
    debugger = PrecisionDebugger(config_path=write_config(
        folder, "tensor", "L1", {"list": ["relu"], "data_mode": ["forward", "output"]}))
    debugger.start()
    begin = time.perf_counter()
    with torch.no_grad():
        for i in range(mebibytes // 4):
            tensors[i % 16][0] = i
            torch.relu(tensors[i % 16])
    debugger.stop()
    debugger.step()
    os.sync()
    seconds = time.perf_counter() - begin
    print(json.dumps(dict(seconds=seconds, counts=count_dump(os.path.join(folder, "dump")))))


def write_sequentially(where, mebibytes):
    """MB/s of one plain file, the time until it is on the disk included."""
    block = os.urandom(4 << 20)
    with tempfile.TemporaryDirectory(dir=where) as folder:
        begin = time.perf_counter()
        with open(os.path.join(folder, "sequential"), "wb") as file:
            for _ in range(mebibytes // 4):
                file.write(block)
        os.sync()
        return mebibytes * 1.048576 / (time.perf_counter() - begin)


def write_tensors(where, mebibytes):
    """MB/s of tensor files, measured likewise."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--writer", str(mebibytes), "--folder", folder],
                              stdout=subprocess.PIPE, check=True, env={**os.environ, "MSPROBE_LOG_LEVEL": "3"})
        result = json.loads(done.stdout.splitlines()[-1])
    return result["counts"]["disk"] / 1e6 / result["seconds"]


def print_writer(quick, where):
    mebibytes = 256 if quick else 2048
    rates = [(write_tensors(where, mebibytes), write_sequentially(where, mebibytes)) for _ in range(3)]
    rate, roof = (statistics.median(column) for column in zip(*rates))
    print(f"\nwriter: {rate:.0f} MB/s of tensor files, plain sequential write {roof:.0f} MB/s: {100 * rate / roof:.0f} %"
          f" (medians of 3 turns)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few steps, small files")
    parser.add_argument("--model", choices=sorted(MODELS), action="append")
    parser.add_argument("--mode", choices=list(MODES), action="append")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--folder", help="where all files go (default: the system's temporary folder)")
    parser.add_argument("--peer", metavar="FOLDER", help="measure the tool of this interface that is installed in FOLDER")
    parser.add_argument("--worker", choices=list(MODES), help=argparse.SUPPRESS)
    parser.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.worker and not arguments.writer:
        os.environ["PYTHONPATH"] = measured_tool.place_of(arguments.peer)
    if arguments.worker:
        arguments.model = arguments.model[0]
        run_worker(arguments)
    elif arguments.writer:
        run_writer(arguments.folder, arguments.writer)
    else:
        modes = ["without"] + [mode for mode in arguments.mode or MODES if mode != "without"]
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            for model in arguments.model or ["tiny", "medium"]:
                print_table(model, modes, arguments.device, arguments.quick, scratch)
        if not arguments.mode:
            print_writer(arguments.quick, arguments.folder)


if __name__ == "__main__":
    main()
