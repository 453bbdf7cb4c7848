"""From a seed to a pair: a model, a layout for each side, a fault, the dumps of both sides, and the truth."""
import json
import os
import random
import shutil
import time

import torch

import models
import oracle_of_layouts
import parallel
import plants
import runs
from pairs_on_disk import VERSION, Pair, load

# name: (family or None for GPT, settings). Names are what the report groups by.
LAYOUTS = [
    ("TP 2", dict(tp=2)),
    ("TP 3", dict(tp=3)),
    ("TP 4", dict(tp=4)),
    ("TP 2, sequence parallel", dict(tp=2, sp=True)),
    ("TP 4, sequence parallel", dict(tp=4, sp=True)),
    ("CP 2", dict(cp=2)),
    ("CP 2, TP 2", dict(cp=2, tp=2)),
    ("CP 2, DP 2", dict(cp=2, dp=2)),
    ("PP 2", dict(pp=2, micro=2)),
    ("PP 2, 2 chunks", dict(pp=2, vpp=2, layers=4, micro=2)),
    ("PP 2, TP 2", dict(pp=2, tp=2, micro=2)),
    ("PP 2, DP 2", dict(pp=2, dp=2)),
    ("DP 2", dict(dp=2)),
    ("DP 2, DDP", dict(dp=2, ddp=True, style="plain")),
    ("DP 2, 2 micro-batches", dict(dp=2, micro=2)),
    ("2 micro-batches", dict(micro=2)),
    ("4 micro-batches", dict(micro=4)),
    ("TP 2, DP 2", dict(tp=2, dp=2)),
    ("TP 2, DP 2, 2 micro-batches, sequence parallel", dict(tp=2, sp=True, dp=2, micro=2)),
    ("PP 2, TP 2, DP 2", dict(pp=2, tp=2, dp=2, micro=2)),
    ("EP 2", dict(family="MoE", dp=2, ep=2)),
    ("EP 2, TP 2", dict(family="MoE", dp=2, ep=2, tp=2)),
    ("MoE, TP 2", dict(family="MoE", tp=2)),
    ("MoE, DP 2", dict(family="MoE", dp=2)),
    ("Conv, DP 2", dict(family="Conv", dp=2)),
    ("Conv, DP 2, DDP", dict(family="Conv", dp=2, ddp=True)),
    ("Conv, 4 micro-batches", dict(family="Conv", micro=4)),
    ("FSDP2", dict(dp=2, fsdp=True, style="plain")),
    ("FSDP2, 2 micro-batches", dict(dp=2, fsdp=True, style="plain", micro=2)),
    ("Conv, FSDP2", dict(family="Conv", dp=2, fsdp=True)),
    ("DTensor, TP 2", dict(tp=2, dtensor=True, style="plain", qkv="heads", gated=False)),
    ("DTensor, TP 2, FSDP2", dict(tp=2, dp=2, dtensor=True, fsdp=True, style="plain", qkv="heads", gated=False)),
]


def needs_newer_torch(settings):
    return bool(settings.get("fsdp") or settings.get("dtensor"))


def _model(rng, settings):
    """What both sides share: the logical model, its data, what is captured."""
    padded = rng.random() < 0.5
    micro = settings.get("micro", 1)
    model = dict(family="GPT", order=rng.choice(["sbh", "bsh"]), hidden=rng.choice([24, 48]), heads=12 if rng.random() < 0.3 else 6,
                 ffn=48, layers=2, length=12, batch=4 if micro < 4 else 8, vocabulary=rng.choice([29, 31, 37]) if padded else 36,
                 qkv=rng.choice(["heads", "blocks"]), gated=rng.random() < 0.5, bias=rng.random() < 0.6,
                 row_bias=rng.random() < 0.4, positions=rng.choice(["rope", "learned"]), experts=4, top=rng.choice([1, 2]),
                 channels=8, optimizer=rng.choice(["SGD", "AdamW"]), task=rng.choice(["tensor", "tensor", "statistics"]),
                 level=rng.choice(["mix", "mix", "L0"]), steps=1, records_update=rng.random() < 0.7)
    if settings.get("tp", 1) == 4 or settings.get("tp") == 2 and settings.get("sp"):
        model.update(hidden=24 if rng.random() < 0.5 else 48, heads=12, length=16 if settings.get("cp", 1) == 1 else 12)
    if settings.get("cp", 1) > 1:
        model["length"] = 12
    if settings.get("tp") == 3:
        model.update(heads=6 if rng.random() < 0.5 else 12)
    if model["hidden"] // model["heads"] % 2:
        model["hidden"] = 48
    return model


def _side(model, settings, rng):
    side = dict(dict(style="parallel", micro=1), **model)
    side.update(settings)
    tp = side.get("tp", 1)
    if side["style"] == "parallel" and side["family"] != "Conv":
        side["table"] = models.pad(side["vocabulary"], 4 * tp if side["vocabulary"] % tp or side["vocabulary"] != 36 else 1)
    else:
        side["table"] = side["vocabulary"]
    if side["family"] == "Conv":
        side["style"] = "plain"
    return side


def setups_of(seed):
    """(kind of fault, name of the layout, setup of the npu side, setup of the bench side), or None: no such layout here."""
    rng = random.Random("layout/%d" % seed)
    kinds = sorted(plants.FAULTS)
    kind = kinds[seed % len(kinds)]
    needs = plants.FAULTS[kind][0]
    for _ in range(400):
        name, settings = rng.choice(LAYOUTS)
        model = dict(_model(rng, settings), seed=seed)
        npu = _side(model, settings, rng)
        if npu["style"] == "parallel" and npu.get("tp", 1) > 1 and rng.random() < 0.4 and npu["family"] != "MoE":
            npu["gather_output"] = True
        if npu.get("ddp") and rng.random() < 0.5:
            npu["watches_wrapper"] = True
        if npu["style"] == "parallel" and npu["family"] == "GPT" and not kind.startswith(("gradient_", "sequence_", "running_", "accumulation_")) and rng.random() < 0.25:
            npu["clip"] = 0.5
        if kind == "update_lost" or rng.random() < 0.15:
            npu["steps"] = 2
        if npu["task"] == "tensor" and (runs.grid_of(npu).world > 2 or rng.random() < 0.6):
            npu["level"] = "L0"  # a file for every tensor of every call: thousands
        if needs(npu):
            break
    else:
        raise AssertionError("no layout has a place for " + kind)
    bench = {key: value for key, value in npu.items()
             if key not in ("tp", "sp", "cp", "dp", "pp", "vpp", "ep", "fsdp", "dtensor", "ddp", "gather_output", "watches_wrapper")}
    other = rng.random()
    bench.update(micro=1, style=rng.choice(["plain", "parallel"]) if npu["family"] != "Conv" else "plain")
    if npu["family"] == "GPT" and npu["style"] == "parallel" and other < 0.12 and npu.get("tp", 1) != 2 and npu["heads"] % 2 == 0:
        bench.update(tp=2, style="parallel")
        name += " against TP 2"
    elif npu["style"] == "parallel" and npu["family"] != "Conv" and npu.get("dp", 1) == 2 and npu.get("tp", 1) == 2 and other < 0.4 \
            and npu.get("ep", 1) == 1:
        bench.update(dp=2, micro=npu["micro"])
        name += " against DP 2"
    bench = _side({key: value for key, value in bench.items() if key != "table"}, {}, rng)
    if npu.get("clip"):
        bench["clip"] = npu["clip"]
    return kind, name, npu, bench


def make(root, seed, records=None):
    """Makes the dumps of a pair and its truth; what is there already is kept."""
    existing = load(root, seed, any_version=False)
    if existing is not None:
        return existing
    kind, name, npu, bench = setups_of(seed)
    plant, truth = plants.FAULTS[kind][1](random.Random("plant/%d" % seed), npu)
    record = records or random.Random("record/%d" % seed).choice(["recorded", "recorded", "none"])
    return make_of(root, seed, kind, name, npu, bench, plant, truth, record)


def make_of(root, seed, kind, name, npu, bench, plant, truth, record, clean=None):
    folder = os.path.join(root, str(seed))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    began = time.time()
    told = dict(version=VERSION, seed=seed, kind=kind, layout=name, npu=npu, bench=bench, plant=plant, truth=truth.as_json(),
                record=record, torch=".".join(torch.__version__.split(".")[:2]))
    told["clean"] = clean or npu
    told["placements"] = {side: _placements(setup) for side, setup in (("npu", npu), ("bench", bench))}
    pair = Pair(folder, told)
    if needs_newer_torch(npu) and not runs.has_newer_torch():
        told["skipped"] = "needs PyTorch 2.6"
        return tell(pair)
    try:
        for side, setup, planted in (("bench", bench, None), ("clean", clean or npu, None),
                                     ("npu", npu, plants.Plant(kind, **plant))):
            ranks = runs.run(setup, pair.side(side), planted)
            finish(pair.side(side), setup, ranks, record)
            told[side + "_ranks"] = ranks
        told["doubt"] = oracle_of_layouts.doubt(pair)
    except RuntimeError as error:
        told["skipped"], told["error"] = "cannot be run", str(error)[-3000:]
    told["seconds"] = round(time.time() - began, 2)
    return tell(pair)


def _placements(setup):
    """{global path: (dim, blocks)} of the parameters that tensor parallelism cuts."""
    found = {}
    for path in models.whole_weights(setup):
        placed = models.placement(setup, path, setup.get("tp", 1))
        outside = setup.get("dtensor") and not path.startswith("decoder.layers.")
        if placed.dim is not None and not outside and (setup["style"] == "parallel" or setup.get("dtensor")):
            found[path] = placed.dim, placed.blocks
    return found


def tell(pair):
    with open(os.path.join(pair.folder, "pair.json.part"), "w") as file:
        json.dump(pair.told, file, indent=1)
    os.replace(os.path.join(pair.folder, "pair.json.part"), os.path.join(pair.folder, "pair.json"))
    return pair


def finish(folder, setup, ranks, record):
    """Leaves the record of the layout that the capture wrote, or takes it away: as dumps of other tools are."""
    for step in os.listdir(os.path.join(folder, "dump")):
        for rank in os.listdir(os.path.join(folder, "dump", step)):
            here = os.path.join(folder, "dump", step, rank)
            if record == "none":
                if os.path.exists(os.path.join(here, "layout.json")):
                    os.remove(os.path.join(here, "layout.json"))
            elif record == "generator":
                number = int(rank[4:] or 0)
                with open(os.path.join(here, "layout.json"), "w") as file:
                    json.dump(record_of(setup, number, ranks[number]), file)


def record_of(setup, rank, told):
    """The layout as a capture that knows everything would record it."""
    grid = runs.grid_of(setup)
    parallel.CONTEXT.grid, parallel.CONTEXT.rank = grid, rank
    tp = grid.size["tp"] if setup["style"] == "parallel" or setup.get("dtensor") else 1
    groups = {axis: grid.group(rank, [axis]) for axis in ("tp", "pp", "dp", "cp")}
    if setup.get("ep", 1) > 1:
        groups["ep"] = groups["dp"]
    if setup.get("fsdp"):
        groups["fsdp"] = groups["dp"]
    found = {"schema_version": 1, "rank": rank, "world_size": grid.world, "groups": groups, "parameters": {},
             "layers": told["layers"], "experts": told["experts"]}
    names = models.Names.__new__(models.Names)
    names.layers, names.experts = told["layers"], told["experts"]
    for local, shape in told["parameters"].items():
        path = names.globally(local)
        placed = models.placement(setup, path, tp)
        if placed.dim is None or setup.get("dtensor") and not path.startswith("decoder.layers."):
            found["parameters"][local] = {"kind": "replicated", "global_shape": shape}
        else:
            whole = [length * (tp if dim == placed.dim and not setup.get("dtensor") else 1) for dim, length in enumerate(shape)]
            entry = {"kind": "shard", "dim": placed.dim, "part": grid.place(rank)["tp"], "parts": tp, "global_shape": whole}
            if placed.blocks > 1:
                entry["blocks"] = [whole[placed.dim] // placed.blocks] * placed.blocks
            if placed.padded:
                entry.update(padded_to=setup["table"], padded_from=setup["vocabulary"])
            found["parameters"][local] = entry
    if grid.size["cp"] > 1:
        found["sequence"] = {"dim": 0 if setup["order"] == "sbh" else 1, "part": grid.place(rank)["cp"], "parts": grid.size["cp"],
                             "order": "zigzag"}
    return found
