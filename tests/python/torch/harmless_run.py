"""Trains models with or without us, and prints a hash of everything after every step.

usage: harmless_run.py OBSERVERS VARIANT FOLDER MODEL...
OBSERVERS: none, or what observes, joined by + in the order of its start: dump:LEVEL:TASK[:md5], monitor,
           grad_probe:LEVEL
VARIANT: plain, amp, accumulate, compile:BACKEND:raw, compile:BACKEND:compiled, ddp, ddp:wrapped (the wrapper is
         observed), fsdp2, dtensor: in two processes
"""
import hashlib
import json
import os
import sys

import torch

from harmless_models import MODELS

STEPS = 3
MONITOR = {"targets": {}, "xy_distribution": True, "wg_distribution": True, "mv_distribution": True,
           "param_distribution": True, "step_interval": 1,
           "ops": ["norm", "min", "max", "mean", "nans"]}


class Hash:
    def __init__(self):
        self._hash = hashlib.sha1()

    def put(self, value):
        if isinstance(value, torch.Tensor):
            value = getattr(value.detach(), "_local_tensor", value.detach()).contiguous()
            self._hash.update(str((value.dtype, tuple(value.shape))).encode())
            self._hash.update(bytes(value.flatten().view(torch.uint8).numpy())
                              if value.numel() else b"")
        elif isinstance(value, dict):
            for key in value:
                self.put(str(key))
                self.put(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.put(item)
        else:
            self._hash.update(repr(value).encode())

    def text(self):
        return self._hash.hexdigest()[:16]


class Dump:
    """The capture of this process, started and stopped around every step of every model."""

    def __init__(self, level, task, folder, mode=None):
        from msprobe.pytorch import PrecisionDebugger
        path = os.path.join(folder, "dump.json")
        with open(path, "w") as file:
            json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"),
                       task: {"summary_mode": mode} if mode else {}}, file)
        self._debugger = PrecisionDebugger(path)

    def watch(self, model, optimizer):
        self._model = model

    def begin(self):
        self._debugger.start(model=self._model)

    def end(self):
        self._debugger.stop()
        self._debugger.step()

    def close(self):
        pass


class GradProbe:
    """The signs of all gradients before every step of an optimizer."""

    def __init__(self, level, folder):
        from msprobe.pytorch import PrecisionDebugger
        path = os.path.join(folder, "grad_probe.json")
        with open(path, "w") as file:
            json.dump({"task": "grad_probe", "dump_path": os.path.join(folder, "grad"),
                       "grad_probe": {"grad_level": level}}, file)
        self._debugger = PrecisionDebugger(path)

    def watch(self, model, optimizer):
        self._debugger.monitor(model)

    def begin(self):
        pass

    def end(self):
        pass

    def close(self):
        self._debugger.stop()


class Monitor:
    def __init__(self, folder):
        os.environ["MONITOR_OUTPUT_DIR"] = os.path.join(folder, "monitor")
        self._path = os.path.join(folder, "monitor.json")
        with open(self._path, "w") as file:
            json.dump(MONITOR, file)

    def watch(self, model, optimizer):
        from msprobe.pytorch import TrainerMon
        self._monitor = TrainerMon(self._path)
        self._monitor.set_monitor(model, optimizer)

    def begin(self):
        pass

    def end(self):
        pass

    def close(self):
        self._monitor.close()


def observers(text, folder):
    made = []
    for entry in text.split("+"):
        kind, *rest = entry.split(":")
        if kind == "dump":
            made.append(Dump(rest[0], rest[1], folder, *rest[2:]))
        elif kind == "grad_probe":
            made.append(GradProbe(rest[0], folder))
        elif kind == "monitor":
            made.append(Monitor(folder))
    return made


def train(name, seen_by, variant):
    """Yields a hash after each step."""
    torch.manual_seed(3)
    model, batch, loss_of = MODELS[name]()
    trained = observed = model
    kind, *rest = variant.split(":")
    if kind == "compile":
        trained = torch.compile(model, backend=rest[0])
        observed = trained if rest[1] == "compiled" else model
    elif kind == "ddp":
        trained = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        observed = trained if rest else model
    elif kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        for part in list(model.blocks) + [model]:
            fully_shard(part)
    elif kind == "dtensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        for block in model.blocks:
            parallelize_module(block, init_device_mesh("cpu", (2,)), {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()})
    is_mixed = kind == "dtensor"  # tensors and DTensors together are refused by functions of many tensors
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, foreach=False if is_mixed else None)
    for observer in seen_by:
        observer.watch(observed, optimizer)
    # Parts of one model get the same batch.
    rank = torch.distributed.get_rank() if kind in ("ddp", "fsdp2") else 0
    generator = torch.Generator().manual_seed(5 + rank)
    for _ in range(STEPS):
        digest = Hash()
        for observer in seen_by:
            observer.begin()
        for _ in range(2 if kind == "accumulate" else 1):
            inputs = batch(generator)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "amp"):
                loss = loss_of(trained, inputs)
            loss.backward()
            digest.put(loss)
        if is_mixed:
            for parameter in model.parameters():
                parameter.grad *= 0.5
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for observer in reversed(seen_by):
            observer.end()
        for parameter in model.parameters():
            digest.put([parameter, parameter.grad, getattr(parameter, "main_grad", None)])
        digest.put([list(model.buffers()), optimizer.state_dict(), torch.get_rng_state()])
        optimizer.zero_grad()
        yield digest.text()
    for observer in seen_by:
        observer.close()


def main():
    text, variant, folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    in_two = variant.split(":")[0] in ("ddp", "fsdp2", "dtensor")
    if in_two:
        torch.distributed.init_process_group("gloo", init_method="file://" + folder + "/meeting",
                                             rank=int(os.environ["RANK"]), world_size=2)
        folder = os.path.join(folder, str(torch.distributed.get_rank()))
        os.makedirs(folder, exist_ok=True)
    seen_by = observers(text, folder)
    for name in names:
        print("hash", name, *train(name, seen_by, variant), flush=True)
    if in_two:
        torch.distributed.destroy_process_group()


main()
