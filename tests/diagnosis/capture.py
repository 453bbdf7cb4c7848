"""One side of a case: a short training in a process of its own, captured by PrecisionDebugger."""
import json
import os
import sys
import traceback

import torch
from msprobe.pytorch import PrecisionDebugger

import families
import faults as planted
import kernels

if int(torch.__version__.split(".")[0]) >= 2:
    import torch._dynamo  # noqa: F401  optimizers of PyTorch 2 import it when they first step: once, not in every child


# A pool of threads that the parent made, looking into the tensors of a case, would not be in its children: they
# would wait for it without end.
torch.set_num_threads(1)


def run(setup, side, folder, faults=(), with_trace=False):
    """Trains as `setup` says, with the kernels of `side`, in a child; the dump goes to folder/dump.

    Returns what the child tells: {"fired": [...], "trace": [...] or None}. The parent has no pool of
    threads, so that the child may choose its number of them.
    """
    os.makedirs(folder)
    child = os.fork()
    if child == 0:
        try:
            log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            _train(setup, side, folder, faults, with_trace)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        with open(os.path.join(folder, "log")) as file:
            raise RuntimeError("a side of the case failed:\n" + file.read()[-2000:])
    with open(os.path.join(folder, "told.json")) as file:
        return json.load(file)


def _configuration(setup, folder):
    section = {"summary_mode": "md5"} if setup["task"] == "md5" else {}
    task = "statistics" if setup["task"] == "md5" else setup["task"]
    return {"task": task, "level": setup["level"], "dump_path": os.path.join(folder, "dump"), task: section}


def _to_dtype(batch, dtype):
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()}


def _train(setup, side, folder, faults, with_trace):
    torch.set_num_threads(side.threads)
    seed = setup["seed"]
    torch.manual_seed(seed)
    model = families.build(setup["family"], setup["sizes"])
    dtype = getattr(torch, side.dtype)
    model.to(dtype)
    optimizer = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}[
        setup["optimizer"]](model.parameters(), lr=setup["learning_rate"])

    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(_configuration(setup, folder), file)
    debugger = PrecisionDebugger(os.path.join(folder, "config.json"))

    modules = kernels.Modules(model)
    trace = [] if with_trace else None
    operators = [pair for fault in faults for pair in fault.operators()]
    mode = kernels.Kernels(side.kernels, modules, operators, trace)
    training = planted.Training(model, optimizer, setup)
    for step in range(setup["steps"]):
        generator = torch.Generator().manual_seed(seed * 100 + step)
        batch, *later = [_to_dtype(model.batch(generator), dtype) for _ in range(setup["micro_batches"])]
        torch.manual_seed(seed * 100 + step)
        for fault in faults:
            batch = fault.before_step(training, step, batch) or batch
        debugger.start(model=model)
        with mode:
            for part in range(setup["micro_batches"]):
                mode.go_on(step, kernels.FORWARD)
                loss = model.loss(batch if part == 0 else later[part - 1]) / setup["micro_batches"]
                mode.go_on(step, kernels.BACKWARD)
                loss.backward()
        if not setup["records_update"]:
            debugger.stop()
        for fault in faults:
            fault.before_update(training, step)
        with mode:
            mode.go_on(step, kernels.UPDATE)
            optimizer.step()
        if setup["records_update"]:
            debugger.stop()
        optimizer.zero_grad(set_to_none=True)
        debugger.step()
    debugger._session.close()
    with open(os.path.join(folder, "told.json"), "w") as file:
        json.dump({"fired": mode.fired, "trace": trace}, file)
