"""What a fault did, read from the runs' own numbers and without `msprobe compare`.

`clean` is the npu side without the fault and in the same layout: the first rows that are not bit-equal must be at the planned
place and on the planned ranks, and the tensors there must have the relation that the truth names.
"""
import json
import os
import re

import torch

import dumps  # of ../diagnosis
import judging


def doubt(pair):
    """Why the plan of the fault does not fit what the runs hold: None where it does."""
    told, truth = pair.told, pair.told["truth"]
    told["first_differences"] = found = first_differences(pair)
    gradients = gradients_that_differ(pair)
    told["gradients_that_differ"] = sorted({name for _, _, name in gradients})[:12]
    if not found and not gradients:
        # Gradients of shared out parameters are not written down by the runs; a capture sees them.
        return None if told["npu"].get("fsdp") or told["npu"].get("dtensor") else "no effect"
    if not found and gradients and not _is_in_dumps(pair, truth["step"]):
        return "gradients differ behind what was recorded"
    wanted = [place for place in truth["places"] if place.startswith("gradient ") and not place.endswith("*")]
    if wanted:
        others = [name for _, step, name in gradients if "gradient " + name not in wanted and step == truth["step"]]
        return "other gradients differ: " + others[0] if others else relation_doubt(pair)
    if not truth["places"] or any(place.endswith(" *") for place in truth["places"]):
        return None
    if truth["kinds"] == ["unmatched call"]:
        return None if _is_unmatched(pair, truth) else "no call of the place is missing or more"
    constructs = judging.Constructs(pair.side("npu"), told["npu_ranks"])
    here = [entry for rank, step, entry in found if step == truth["step"] and (not truth["ranks"] or rank in truth["ranks"])]
    for entry in here:
        names = {place.split(" ", 1)[1] for place in judging.places_of(entry, "", "parameter", truth["step"], [constructs])}
        if any(judging.is_at("x " + name, "x " + judging.module_of(place)) or
               judging.is_at("x " + name + ".?", "x " + place.split(" ", 1)[1]) for name in names for place in truth["places"]):
            return relation_doubt(pair)
    return "the first difference is at %s" % here[:2]


def _step(pair, side, step, rank):
    folder = "rank%d" % rank if len(pair.told["npu_ranks"]) > 1 else "rank"
    return dumps.Step(os.path.join(pair.side(side), "dump", "step%d" % step, folder))


def first_differences(pair):
    """[(rank, step, entry)] of the first module on each rank that differs by a bit. Calls between modules may be a framework's own."""
    found = []
    for rank in range(len(pair.told["npu_ranks"])):
        for step in range(pair.told["npu"]["steps"]):
            npu, clean = _step(pair, "npu", step, rank), _step(pair, "clean", step, rank)
            first = next((entry for entry in npu.order if entry.startswith("Module.") and (
                entry not in clean.data or any(dumps.differing_rows(npu, clean, entry).values()))), None)
            first = first or next((entry for entry in clean.order if entry.startswith("Module.") and entry not in npu.data), None)
            if first is not None:
                found.append((rank, step, first))
                break
    return found


def _is_in_dumps(pair, step):
    """Whether any recorded number of the step differs: a reduction may be behind the end of the record."""
    for rank in range(len(pair.told["npu_ranks"])):
        folders = [_step(pair, side, step, rank).folder for side in ("npu", "clean")]
        for name in ("dump.json", "reduced_gradients.json"):
            files = [os.path.join(folder, name) for folder in folders]
            if all(os.path.exists(file) for file in files):
                sides = [json.load(open(file))["data"] for file in files]
                if sides[0] != sides[1]:
                    return True
    return False


def _is_unmatched(pair, truth):
    for rank, rank_told in enumerate(pair.told["npu_ranks"]):
        npu, clean = _step(pair, "npu", truth["step"], rank), _step(pair, "clean", truth["step"], rank)
        for entry in set(npu.order) ^ set(clean.order):
            match = re.match(r"Module\.(.+)\.\w+\.forward\.", entry)
            if match and any(judging.is_at("forward " + judging.global_path(rank_told, match.group(1)), place) for place in truth["places"]):
                return True
    return False


def gradients_that_differ(pair):
    found = []
    for rank in range(len(pair.told["npu_ranks"])):
        sides = [torch.load(os.path.join(pair.side(side), "gradients%d.pt" % rank)) for side in ("npu", "clean")]
        for step, (a, b) in enumerate(zip(*sides)):
            found += [(rank, step, name) for name in b if name not in a or not torch.equal(a[name], b[name])]
    return found


# ---- relations ----


def relation_doubt(pair):
    """Whether the tensors of both runs have the relation of the truth; only where it names one alone, and tensors are there."""
    told, truth = pair.told, pair.told["truth"]
    kinds = [kind for kind in truth["relations"] if kind not in (None, "any")]
    check = _CHECKS.get(kinds[0]) if kinds else None
    place = truth["places"][0]
    if check is None or None in truth["relations"] or truth["kinds"] == ["input"]:  # the output of it tells nothing
        return None
    if place.startswith("gradient "):
        values = _gradients(pair, place.split(" ", 1)[1], truth["step"])
    elif place.startswith(("forward ", "backward ")) and told["npu"]["task"] == "tensor":
        values = _outputs(pair, place, truth["step"])
    else:
        return None
    return None if values and check(values, truth) else "the tensors do not show %s" % kinds[0]


def _gradients(pair, path, step):
    """[(rank, npu, clean)]"""
    found = []
    for rank in range(len(pair.told["npu_ranks"])):
        sides = [torch.load(os.path.join(pair.side(side), "gradients%d.pt" % rank))[step].get(path) for side in ("npu", "clean")]
        if None not in sides:
            found.append((rank,) + tuple(side.double() for side in sides))
    return found


def _outputs(pair, place, step):
    direction, path = place.split(" ", 1)
    found = []
    for rank, rank_told in enumerate(pair.told["npu_ranks"]):
        npu, clean = _step(pair, "npu", step, rank), _step(pair, "clean", step, rank)
        for entry in npu.order:
            match = re.match(r"Module\.(.+)\.\w+\.%s\.0$" % direction, entry)
            if match and judging.global_path(rank_told, re.sub("^module\\.", "", match.group(1))) == path:
                files = [os.path.join(side.folder, "dump_tensor_data", entry + ".output.0.pt") for side in (npu, clean)]
                if all(os.path.exists(file) for file in files):
                    found.append((rank,) + tuple(torch.load(file).double() for file in files))
    return found


def _close(a, b):
    return a.shape == b.shape and float((a - b).norm()) <= 2e-5 * float(b.norm())


def _is_scaled(values, truth):
    return all(_close(npu, truth["factor"] * clean) for _, npu, clean in values)


def _is_part_of_sum(values, truth):
    """The parts of some ranks add up to what the others of clean hold: tried over groups of neighbours and of equal distance."""
    count = len(values)
    for size in (2, 3, 4, 8):
        for stride in (1, 2, 4):
            ranks = [index * stride for index in range(size)]
            if ranks[-1] >= count:
                continue
            total = sum(values[index][1] for index in ranks)
            if any(_close(total, divisor * values[0][2]) for divisor in (1, size)):
                return True
    return False


def _is_offset(values, truth):
    for _, npu, clean in values:
        rows = (npu - clean).reshape(-1, npu.shape[-1])
        if float((rows - rows[0]).abs().max()) > 1e-5 * max(1.0, float(clean.abs().max())):
            return False
    return True


def _is_rounded(values, truth):
    return all(torch.equal(npu, clean.to(torch.bfloat16).double()) for _, npu, clean in values)


def _is_shifted(values, truth):
    return all(any(torch.equal(npu.narrow(dim, 1, npu.shape[dim] - 1), clean.narrow(dim, 0, npu.shape[dim] - 1))
                   for dim in (0, 1)) for _, npu, clean in values)


def _has_zeros_for_a_part(values, truth):
    return all(bool(((npu == clean) | (npu == 0)).all()) for _, npu, clean in values)


def _has_other_order(values, truth):
    return all(torch.equal(npu.sort(-1)[0], clean.sort(-1)[0]) for _, npu, clean in values)


_CHECKS = {"scale": _is_scaled, "reduced_twice": _is_scaled, "partial_sum": _is_part_of_sum, "constant": _is_offset,
           "precision": _is_rounded, "shift": _is_shifted, "missing_part": _has_zeros_for_a_part, "permutation": _has_other_order}
