"""From a seed to a case: a model, a background, a fault, and the dumps of both sides."""
import json
import os
import random
import shutil
import time

import torch

import backgrounds
import capture
import families
import faults
import oracle
from cases_on_disk import VERSION, Case, load

TORCH = ".".join(torch.__version__.split(".")[:2])
FAULT_KINDS = ("weight", "input", "seed", "operator", "backward", "optimizer", "one step", "nan", "dtype", "missing",
               "extra", "inplace", "strided", "two")


def setup_of(seed):
    """Everything about a case but the place of its fault, which depends on what the model runs."""
    rng = random.Random("diagnosis/%d" % seed)
    kind = FAULT_KINDS[seed % len(FAULT_KINDS)]
    names = sorted(families.FAMILIES)
    if kind == "inplace":
        names = ["InPlace", "InPlace", "CNN"]
    family = rng.choice(names)
    sizes = families.FAMILIES[family].sizes(rng)
    if kind == "seed":
        family = rng.choice(["MLP", "GPT", "TiedGPT", "CheckpointedGPT", "DiffusionUNet"])
        sizes = families.FAMILIES[family].sizes(rng)
        if "drop" in sizes:
            sizes["drop"] = rng.choice([0.1, 0.3])
    background = rng.choice(["none", "none", "threads", "reordered", "exact_sums", "reordered", "bf16_both",
                             "bf16_against_fp32"])
    task = rng.choice(["statistics", "statistics", "tensor", "md5"])
    if task == "md5" and rng.random() < 0.8:  # over a background checksums can only say "not bit-equal"
        background = "none"
    if background == "threads":  # small tensors are never shared among threads
        sizes = dict(sizes, rows=sizes["rows"] * 12)
    micro_batches = rng.choice([1, 1, 1, 2])
    optimizer = rng.choice(["SGD", "Adam", "AdamW"])
    return dict(seed=seed, kind=kind, family=family, sizes=sizes, background=background, optimizer=optimizer,
                learning_rate=rng.choice([0.1, 0.03]) if optimizer == "SGD" else rng.choice([1e-3, 3e-3]),
                micro_batches=micro_batches,              # forwards and backwards of a step
                records_update=rng.random() < 0.25,       # whether the optimizer's calls are recorded
                level=rng.choice(["L0", "L1", "mix"]), task=task, steps=rng.choice([2, 2, 3]),
                # Decimal exponents of the sizes of faults: below, they drown in what rounding does.
                sizes_of_faults=[-1.9, -0.3] if background.startswith("bf16") else [-4.7, -1])


def _structure(setup):
    """(names of parameters, [(module, class)], names of buffers) of the case's model."""
    with torch.random.fork_rng():
        model = families.build(setup["family"], setup["sizes"])
    return ([name for name, _ in model.named_parameters()],
            [(name, type(module).__name__) for name, module in model.named_modules() if name],
            [name for name, buffer in model.named_buffers() if buffer.is_floating_point()])


def _plant(setup, rng, trace):
    """The faults of a case; [] when the model has no place for one of this kind."""
    kind, steps = setup["kind"], setup["steps"]
    step = rng.randrange(steps)
    parameters, modules, buffers = _structure(setup)

    def operator(kind, phase="forward", styles=None, step=step):
        return faults.OperatorFault.choose(rng, setup, trace, kind, phase, step, styles)

    if kind == "weight":
        found = [faults.WeightFault.choose(rng, setup, parameters, step, buffers)]
    elif kind == "input":
        found = [faults.InputFault.choose(rng, setup, ["x", "x", "x", "target"], step)]
    elif kind == "seed":
        found = [faults.SeedFault.choose(rng, setup, step)]
    elif kind in ("operator", "one step", "inplace"):
        found = [operator(kind)]
    elif kind == "strided":
        found = [operator(kind, styles=["strided"])]
    elif kind == "backward":
        found = [operator(kind, "backward")]
    elif kind == "nan":
        style = rng.choice(["nan", "nan", "inf"])
        where = rng.choice(["operator", "operator", "backward", "weight", "input"])
        if where in ("operator", "backward"):
            found = [operator(kind, "forward" if where == "operator" else "backward", [style])]
        else:
            part = faults.WeightFault.choose(rng, setup, parameters, step, []) if where == "weight" else \
                faults.InputFault.choose(rng, setup, ["x"], step)
            part.style = part.choice["style"] = style
            found = [part]
    elif kind == "optimizer":
        step = rng.randrange(steps - 1)
        found = [operator(kind, "update", ["scaled", "noisy", "cut_tail"], step) if rng.random() < 0.25 else
                 faults.OptimizerFault.choose(rng, setup, parameters, step)]
    elif kind == "dtype":
        found = [faults.DtypeFault.choose(rng, setup, modules, step)]
    elif kind == "missing":
        found = [faults.MissingFault.choose(rng, setup, modules, step)]
    elif kind == "extra":
        found = [faults.ExtraFault.choose(rng, setup, modules, step)]
    else:
        found = [operator("two"), operator("two", rng.choice(["forward", "backward"]), step=rng.randrange(steps))]
    return [] if any(fault is None for fault in found) else found


def make(root, seed):
    """Makes the dumps of a case and finds its truth; what is there already is kept."""
    existing = load(root, seed, any_version=False)
    if existing is not None:
        return existing
    folder = os.path.join(root, str(seed))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    began = time.time()
    setup = setup_of(seed)
    rng = random.Random("fault/%d" % seed)
    npu_side, bench_side = backgrounds.sides_of(setup["background"], rng)
    told = dict(setup, version=VERSION, torch=TORCH, truth=None, faults=[])
    case = Case(folder, told)
    try:
        trace = capture.run(setup, npu_side, case.side("clean"), with_trace=True)["trace"]
        planted = _plant(setup, rng, trace)
        told["faults"] = [fault.describe() for fault in planted]
        if planted:
            seen = capture.run(setup, npu_side, case.side("npu"), planted, with_trace=True)
            told["fired"], told["first_operator"] = seen["fired"], oracle.first_operator(seen["trace"], trace)
            told["doubt"] = _doubt(told)
            if setup["background"] != "none":
                capture.run(setup, bench_side, case.side("bench"))
        else:
            told["skipped"] = "the model has no place for this fault"
    except RuntimeError as error:
        told["skipped"] = "cannot be run: " + str(error).strip().splitlines()[-1][:200]
        told["error"] = str(error)[-3000:]
    told["seconds"] = round(time.time() - began, 2)
    return tell(case)


def _doubt(told):
    """Whether the trace of operators contradicts what was planted: None, or how."""
    first, changed = told["first_operator"], [fault for fault in told["fired"] if fault["changed"]]
    if changed and (first is None or any(first[key] != changed[0][key] for key in ("step", "phase", "op", "nth"))):
        return "the first operator that differs is not the first that was changed"
    steps = [fault["step"] for fault in told["faults"]]
    if first is not None and first["step"] < min(steps):
        return "the runs differ before the first fault"
    return None


def tell(case):
    """Finds the truth about a case whose dumps are there, and writes case.json."""
    told = case.told
    if not told.get("skipped"):
        told["truth"] = oracle.truth(told, case.side("npu"), case.side("clean"), case.bench()).as_json()
        step, first = told["truth"]["step"], told["first_operator"]
        if step is not None and first is not None and step < first["step"]:
            told["doubt"] = "the dumps differ before the operators do"
    with open(os.path.join(case.folder, "case.json.part"), "w") as file:
        json.dump(told, file, indent=1)
    os.replace(os.path.join(case.folder, "case.json.part"), os.path.join(case.folder, "case.json"))
    return case
