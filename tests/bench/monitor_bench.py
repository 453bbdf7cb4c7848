#!/usr/bin/env python3
"""What the training monitor costs: CPU time per training step with every kind of collector.

usage: tests/bench/monitor_bench.py [--quick] [--model tiny|medium]... [--mode MODE]... [--folder DIR]

Needs a built shim (build/python, or another one that PYTHONPATH leads to) and a Python with PyTorch. Every mode runs in a
process of its own on one thread. Every second step is measured by the monitor: steps with and without it stand in turns, so
that a busy machine slows both; given are the medians of both, the first steps not counted, what the writer thread takes per
measured step added to the former. "grad L0" to "grad L2": the task grad_probe in place of the monitor. "idle": a model whose steps are never selected, in turns with one that has no monitor.
"writer" is the share of a core, were every step measured. Where an ext4 has no journal and
thousands of files were deleted within minutes, the kernel takes ten times as long to create one: --folder may lead elsewhere.
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
    "tiny": dict(vocab=64, d=64, layers=2, seq=8, batch=32, steps=40),
    "medium": dict(vocab=512, d=256, layers=4, seq=128, batch=4, steps=6),
}
SIX = ["norm", "min", "max", "mean", "zeros", "nans"]
ALL = dict(xy_distribution=True, wg_distribution=True, mv_distribution=True, param_distribution=True)
# name: (keys of the configuration or None, what the Python tool 8.1.1 took, which knows no features: tiny, medium)
MODES = {
    "none": (None, (1.0, 1.0)),
    "wg": (dict(wg_distribution=True), (1.40, 1.02)),
    "mv": (dict(mv_distribution=True), (1.32, 1.00)),
    "param": (dict(param_distribution=True), (1.31, 1.00)),
    "xy": (dict(xy_distribution=True), (3.2, 1.13)),
    "all, 6 ops": (ALL, (4.1, 1.20)),
    "all, norm": (dict(ALL, ops=["norm"]), (3.0, 1.12)),
    "features": (dict(recording_l2_features=True, l2_targets={"linear_hook": []}), ("-", "-")),
    "grad L0": (dict(grad_level="L0"), ("-", "-")),
    "grad L1": (dict(grad_level="L1"), ("-", "-")),
    "grad L2": (dict(grad_level="L2"), ("-", "-")),
    "idle": (dict(ALL, start_step=10**9), (1.42, 1.02)),
}
UNCOUNTED_STEPS = 2


def make_model(torch, vocab, d, layers, seq, **_):
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(d, 3 * d)
            self.proj = nn.Linear(d, d)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (part.view(b, t, 4, d // 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            scores = (q @ k.transpose(-1, -2)) / (d // 4) ** 0.5
            return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(d)
            self.self_attention = Attention()
            self.norm2 = nn.LayerNorm(d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

        def forward(self, x):
            x = x + self.self_attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocab, d)
            self.layers = nn.ModuleList([Block() for _ in range(layers)])
            self.final_layernorm = nn.LayerNorm(d)
            self.output_layer = nn.Linear(d, vocab, bias=False)

        def forward(self, x):
            x = self.embedding(x)
            for layer in self.layers:
                x = layer(x)
            return self.output_layer(self.final_layernorm(x))

    return Model()


def run_worker(arguments):
    """Trains in this process; prints one line of JSON."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = MODELS[arguments.model]
    model = make_model(torch, **shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    turns = [(model, optimizer)] * 2
    if arguments.worker == "idle":  # in turns with a model that has no monitor
        other = make_model(torch, **shape)
        turns[1] = (other, torch.optim.Adam(other.parameters(), lr=1e-3))
    keys = MODES[arguments.worker][0]
    if keys is not None and "grad_level" in keys:
        path = os.path.join(arguments.folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(task="grad_probe", dump_path=os.path.join(arguments.folder, "grad"), grad_probe=keys,
                           step=list(range(0, 200, 2))), file)
        from msprobe.pytorch import PrecisionDebugger
        PrecisionDebugger(path).monitor(model)
    elif keys is not None:
        os.environ["MONITOR_OUTPUT_DIR"] = arguments.folder
        path = os.path.join(arguments.folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(dict(targets={}, ops=SIX, step_interval=2), **keys), file)
        from msprobe.pytorch import TrainerMon
        monitor = TrainerMon(path, params_have_main_grad=False)
        monitor.set_monitor(model, optimizer)
    generator = torch.Generator().manual_seed(7)
    size = (shape["batch"], shape["seq"])
    own = {True: [], False: []}
    begin_all = time.process_time() - time.thread_time()
    steps = 6 if arguments.quick else 2 * shape["steps"]
    for step in range(UNCOUNTED_STEPS + steps):
        x = torch.randint(0, shape["vocab"], size, generator=generator)
        model, optimizer = turns[step % 2]
        begin = time.thread_time()
        loss = torch.nn.functional.cross_entropy(model(x).view(-1, shape["vocab"]), x.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= UNCOUNTED_STEPS:
            own[step % 2 == 0].append(time.thread_time() - begin)
    time.sleep(0.2)  # for the writer
    others = (time.process_time() - time.thread_time() - begin_all) / (UNCOUNTED_STEPS + steps) * 2
    written = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(arguments.folder)
                  for name in names if name.endswith((".csv", ".npy")))
    print(json.dumps(dict(on=statistics.median(own[True]), off=statistics.median(own[False]), writer=others,
                          bytes=2 * written / (UNCOUNTED_STEPS + steps),
                          modules=len(list(model.modules())), parameters=sum(p.numel() for p in model.parameters()))))


def measure(model, mode, quick, scratch):
    folder = tempfile.mkdtemp(dir=scratch)
    command = [sys.executable, os.path.abspath(__file__), "--worker", mode, "--model", model, "--folder", folder]
    done = subprocess.run(command + (["--quick"] if quick else []), stdout=subprocess.PIPE, check=True,
                          env={**os.environ, "MSPROBE_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def print_table(model, modes, quick, scratch):
    print(f"\n{model}")
    print(f"{'mode':12} {'without ms':>11} {'with ms':>9} {'x':>6} {'Python tool x':>14} {'writer %':>9} {'bytes/step':>11}")
    none = None
    for mode in modes:
        result = measure(model, mode, quick, scratch)
        none = none or result
        without, own = result["off"], result["on"] + result["writer"]
        theirs = MODES[mode][1][list(MODELS).index(model)]
        print(f"{mode:12} {without * 1e3:11.2f} {own * 1e3:9.2f} {own / without:6.3f} {theirs:>14} "
              f"{100 * result['writer'] / own:9.2f} {result['bytes']:11.0f}", flush=True)
    print(f"{none['modules']} modules, {none['parameters'] / 1e6:.2f} M parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few steps")
    parser.add_argument("--model", choices=sorted(MODELS), action="append")
    parser.add_argument("--mode", choices=list(MODES), action="append")
    parser.add_argument("--folder", help="where all files go (default: the system's temporary folder)")
    parser.add_argument("--peer", metavar="FOLDER", help="measure the tool of this interface that is installed in FOLDER")
    parser.add_argument("--worker", choices=list(MODES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.worker:
        os.environ["PYTHONPATH"] = measured_tool.place_of(arguments.peer)
    if arguments.worker:
        arguments.model = arguments.model[0]
        run_worker(arguments)
        return
    modes = ["none"] + [mode for mode in arguments.mode or MODES if mode != "none"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        for model in arguments.model or ["tiny", "medium"]:
            print_table(model, modes, arguments.quick, scratch)


if __name__ == "__main__":
    main()
