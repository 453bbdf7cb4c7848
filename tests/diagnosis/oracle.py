"""What a person could read from the two dumps: the truth about a case, found without `msprobe compare`.

`npu` and `clean` are runs with the same kernels, one with the planted fault: they are bit-equal up to
where the fault's effect first shows. `bench` has the other kernels of the background.
"""
import difflib
import math

from dumps import Dump, differing_rows, distance

# Relative distances below these are what another order of summation gives (docs/how-to).
NOISE = {"torch.float32": 1.9e-6, "torch.float64": 1.9e-6, "torch.bfloat16": 1.6e-2, "torch.float16": 2e-3}
MIXED_NOISE = 3.1e-2
# An effect is visible when it is this many times the noise, and this many times what the background
# does to the same rows. What lies between is left out as borderline.
ABOVE_NOISE = 2
ABOVE_BACKGROUND = 8


def noise_of(a, b):
    if not a.is_tensor or not b.is_tensor:
        return 0.0
    if a.dtype != b.dtype:
        return MIXED_NOISE
    return NOISE.get(a.dtype, 0.0)


class FirstDifference:
    """The first entry, in execution order, in which two dumps are not bit-equal."""

    def __init__(self, step, number, entry, rows=None):
        self.step, self.number, self.entry = step, number, entry
        self.missing = rows is None  # the entry exists on one side only
        rows = rows or {"input": [], "parameters": [], "output": []}
        self.inputs, self.parameters, self.outputs = rows["input"], rows["parameters"], rows["output"]


def first_difference(npu, clean):
    for number in clean.numbers():
        item, other = npu.step(number), clean.step(number)
        for entry in item.order:
            if entry not in other.data:
                return FirstDifference(item, number, entry)
            rows = differing_rows(item, other, entry)
            if any(rows.values()):
                return FirstDifference(item, number, entry, rows)
        missing = [entry for entry in other.order if entry not in item.data]
        if missing:
            return FirstDifference(other, number, missing[0])
    return None


def _base(entry):
    """An entry's name without its call number."""
    return ".".join(part for part in entry.split(".") if not part.isdigit() or entry.startswith("Module."))


# So many calls behind a gap of at most so many must be the same on both sides for it to be one. Where
# the same gap soon comes again, few calls lie between.
_WINDOWS = ((12, 60), (6, 8), (3, 4))


def unmatched_calls(item, other, first, is_cast=False):
    """{call: the step that has it} of the first gap, which only one of two steps fills; {}: they have the same calls.

    Where calls repeat, names alone leave open which one is missing; the gap is where values first
    differ. Casts stand on both sides of a call (is_cast): two gaps.
    """
    sides = [[entry for entry in side.order if ".forward" in entry] for side in (item, other)]
    bases = [[_base(entry) for entry in side] for side in sides]
    if bases[0] == bases[1]:
        return {}
    place = sides[0].index(first.entry) if first.entry in sides[0] else None
    if place is not None and not is_cast:
        for window, longest in _WINDOWS:
            for length in range(1, longest):
                for more, step in ((0, item), (1, other)):
                    behind = bases[more][place + length:place + length + window]
                    if behind and behind == bases[1 - more][place:place + window]:
                        return {entry: step for entry in sides[more][place:place + length]}
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *bases, autojunk=False).get_opcodes():
        if tag != "equal":
            return dict([(entry, other) for entry in sides[1][c:d]] + [(entry, item) for entry in sides[0][a:b]])
    return {}


class Truth:
    """Right answers, or why the dumps cannot show any."""

    def __init__(self, step=None, answers=(), hidden=None, effect=None, background=None):
        self.step = step
        self.answers = list(answers)  # [(call, kind)]
        self.hidden = hidden          # why the dumps cannot show it
        self.effect, self.background = effect, background  # relative distances at that place

    def as_json(self):
        return {key: (str(value) if isinstance(value, float) and not math.isfinite(value) else value)
                for key, value in self.__dict__.items()}


def _pairs(calls, kinds):
    return [(call, kind) for call in calls for kind in kinds]


def truth(case, npu_folder, clean_folder, bench_folder):
    """case: faults (described), background and task."""
    npu, clean, bench = Dump(npu_folder), Dump(clean_folder), Dump(bench_folder)
    first = first_difference(npu, clean)
    if first is None:
        return Truth(hidden="no effect that this dump holds")
    kind = case["faults"][0]["kind"]
    step, other = first.step, clean.step(first.number)
    # Other calls may also be an effect: of a router that chose other experts, say.
    if first.missing or kind in ("missing", "extra", "dtype") or (
            kind == "optimizer" and unmatched_calls(step, other, first)):
        return _structural(case, npu, clean, bench, first)
    calls = _same_place(step, other, first)
    stored = first.parameters + [(a, b) for a, b in first.inputs if _is_parameter(first.entry, b, other)]
    if stored or kind in ("weight", "optimizer") and first.inputs and not _is_update(step, first.entry):
        # From the second step on, parameters that were right before are the optimizer's.
        kinds = ["parameter"] if first.number == 0 else ["optimizer"]
        if first.number and not _has_gradients(clean.step(first.number - 1)):
            kinds.append("parameter")
        if not stored or "running" in case["faults"][0].get("parameter", ""):
            # An argument like others, as far as this dump tells.
            kinds = ["parameter", "input"] + (["optimizer"] if first.number else [])
        answers = _pairs(calls, kinds)
        rows = stored or first.inputs
    elif _is_update(step, first.entry):
        answers = _pairs(calls, ["optimizer", "input" if first.inputs else "computation"])
        rows = first.inputs or first.outputs
    elif first.inputs:
        answers, rows = _pairs(calls, ["input"]), first.inputs
        if kind not in ("input", "seed"):
            answers += _around(step, other, first)
    elif kind in ("weight", "optimizer"):
        return Truth(hidden="the parameter is not in the dump before its effect")
    elif kind == "seed":
        answers, rows = _pairs(calls, ["input"]), first.outputs
    else:
        # Of a random call nobody can tell whether its numbers or what it does with them are others.
        kinds = ["computation", "input"] if "dropout" in first.entry.lower() else ["computation"]
        answers, rows = _pairs(calls, kinds), first.outputs
    return _weigh(case, npu, clean, bench, first, rows, answers)


def _is_update(step, entry):
    """Whether a call belongs to the optimizer: construct.json says so, or it comes behind the last backward."""
    if "optimizer" in step.construct:
        return "optimizer" in step.parents(entry)
    last = max((i for i, name in enumerate(step.order) if ".backward" in name), default=len(step.order))
    return entry.startswith("T") and ".forward" in entry and step.order.index(entry) > last


def first_operator(trace, clean_trace):
    """The first operator of two traces (kernels.py) whose result is not bit-equal, or that only one has."""
    for op, other in zip(trace, clean_trace):
        if (op["op"], op["bits"]) != (other["op"], other["bits"]):
            return dict(op, differs_in_name=op["op"] != other["op"])
    return None


def _has_gradients(step):
    return any(entry.endswith(".parameters_grad") for entry in step.data)


# Calls whose arguments say by their place that they are a layer's parameters.
_PARAMETER_PLACES = {"linear": (1, 2), "conv2d": (1, 2), "conv_transpose2d": (1, 2), "embedding": (1,),
                     "layer_norm": (2, 3), "group_norm": (2, 3), "batch_norm": (1, 2, 3, 4)}


def _is_parameter(entry, row, step):
    """Whether an input of a call is a parameter: by its place, or because a module lists the same values."""
    if row is None or not row.is_tensor or ".forward" not in entry:
        return False
    parts = entry.split(".")
    place = row.name.rpartition(".")[2]
    if parts[0] == "Functional" and place.isdigit() and int(place) in _PARAMETER_PLACES.get(parts[1], ()):
        return True
    return any(listed.is_tensor and repr(listed.statistics()) == repr(row.statistics())
               and listed.value.get("shape") == row.value.get("shape")
               for listed in step.parameters())


def _same_place(step, other, first):
    """The first entry, and modules around it that show the same: its input, or a module that is this call alone."""
    entries = [first.entry]
    for parent in step.parents(first.entry):
        if parent not in other.data or parent not in step.data:
            continue
        rows = differing_rows(step, other, parent)
        if first.inputs or first.parameters:
            if rows["input"] or rows["parameters"]:
                entries.append(parent)
        elif not rows["input"] and not rows["parameters"] and len(entries) == 1 and _is_leaf(step, parent):
            entries.append(parent)
    return entries


def _around(step, other, first):
    """What came in wrong was computed by an unrecorded call of the innermost module that got right inputs itself."""
    for parent in step.parents(first.entry):
        if parent in other.data and parent in step.data:
            rows = differing_rows(step, other, parent)
            if not rows["input"] and not rows["parameters"] and rows["output"]:
                return [(parent, "computation")]
    return []


def _module_of(entry):
    """"Module.mlp.act.GELU" of "Module.mlp.act.GELU.forward.0"."""
    for direction in (".forward", ".backward", ".parameters_grad"):
        entry = entry.split(direction)[0]
    return entry


def _is_leaf(step, entry):
    module = _module_of(entry)
    inside = module.rpartition(".")[0] + "."
    return not any(other.startswith(inside) and _module_of(other) != module for other in step.data)


def _structural(case, npu, clean, bench, first):
    """Calls or dtypes differ: these need no threshold."""
    item, other = npu.step(first.number), clean.step(first.number)
    fault = case["faults"][0]
    unmatched = unmatched_calls(item, other, first, fault["kind"] == "dtype")
    if fault["kind"] == "dtype":
        calls = {entry for entry in item.order
                 if ".forward" in entry and entry in other.data and _inside(item, entry, fault["module"])
                 and _has_other_dtypes(item, other, entry)}
        calls |= {parent for entry in calls for parent in item.parents(entry)[:1]
                  if _inside(item, parent, fault["module"])}
        if calls or unmatched:
            answers = _pairs(sorted(calls | set(unmatched)), ["dtype"])
            return Truth(first.number, answers + ([] if calls else _pairs(sorted(unmatched), ["unmatched"])),
                         effect=math.inf, background=0.0)
    elif unmatched:
        modules = {parent for entry, step in unmatched.items() for parent in step.parents(entry)[:1]}
        kinds = ["unmatched", "optimizer"] if fault["kind"] == "optimizer" else ["unmatched"]
        answers = _pairs(sorted(unmatched) + sorted(modules), kinds)
        return Truth(first.number, answers, effect=math.inf, background=0.0)
    if first.missing:
        return Truth(hidden="calls differ, but no call is missing")
    calls = _same_place(item, other, first)
    if first.inputs or first.parameters:
        return _weigh(case, npu, clean, bench, first, first.inputs or first.parameters,
                      _pairs(calls, ["input"]) + _around(item, other, first))
    return _weigh(case, npu, clean, bench, first, first.outputs, _pairs(calls, ["computation"]))


def _has_other_dtypes(item, other, entry):
    mine, theirs = ({(row.section, row.name): row.dtype for row in side.rows(entry)} for side in (item, other))
    return any(mine[key] != theirs[key] for key in mine if key in theirs)


def _inside(step, entry, module):
    if not step.construct:  # such a dump does not tell
        return True
    prefix = "Module.%s." % module
    return any(name.startswith(prefix) for name in [entry] + step.parents(entry))


# Values in another order have the same statistics.
_SHOWN_BY_CHECKSUMS = ("strided", "shuffled")


def _weigh(case, npu, clean, bench, first, rows, answers):
    """Whether the effect stands out from the noise and from the background."""
    item, other, third = npu.step(first.number), clean.step(first.number), bench.step(first.number)
    effect = background = floor = 0.0
    third_rows = {}
    if first.entry in third.data:
        third_rows = {(row.section, row.name): row for row in third.rows(first.entry)}
    for a, b in rows:
        if b is None:
            effect = math.inf
            continue
        effect = max(effect, distance(item, other, a, b))
        c = third_rows.get((b.section, b.name))
        if c is not None:
            background = max(background, distance(other, third, b, c))
            floor = max(floor, noise_of(a, c))
    found = Truth(first.number, answers, effect=effect, background=background)
    is_initial_weight = first.number == 0 and any(kind == "parameter" for _, kind in answers)  # compared exactly
    if case["task"] == "md5" and case["background"] != "none":
        found.hidden = "checksums over a background"
    elif case["task"] == "md5" and case["faults"][0].get("style") in _SHOWN_BY_CHECKSUMS:
        pass
    elif effect <= floor * ABOVE_NOISE and not (is_initial_weight and effect > 0):
        found.hidden = "inside the noise of the dtype"
    elif effect <= background * ABOVE_BACKGROUND:
        found.hidden = "inside what the background does there"
    return found
