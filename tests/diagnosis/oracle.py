"""What a person could read from the two dumps: the truth about a case, found without `msprobe compare`.

`npu` and `clean` are runs with the same kernels, one with the planted fault: they are bit-equal up to
where the fault's effect first shows. `bench` has the other kernels of the background. All is read
from the dumps' own files.
"""
import difflib
import filecmp
import json
import math
import os

# Relative distances below these are what another order of summation gives (docs/how-to).
NOISE = {"torch.float32": 1.9e-6, "torch.float64": 1.9e-6, "torch.bfloat16": 1.6e-2, "torch.float16": 2e-3}
MIXED_NOISE = 3.1e-2
# An effect is visible when it is this many times the noise, and this many times what the background
# does to the same rows. What lies between is left out as borderline.
ABOVE_NOISE = 2
ABOVE_BACKGROUND = 8


class Row:
    """A tensor or value of an entry: `section` is input, output or parameters."""

    def __init__(self, section, name, value):
        self.section, self.name, self.value = section, name, value
        self.is_tensor = isinstance(value, dict) and "dtype" in value and "shape" in value
        self.dtype = value.get("dtype") if self.is_tensor else None

    def statistics(self):
        return [_number(self.value.get(key)) for key in ("Max", "Min", "Mean", "Norm")]

    def elements(self):
        return math.prod(self.value.get("shape") or [1])


def _number(value):
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, (int, float)) else math.nan


class Step:
    """One dump.json: entries in execution order."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "dump.json")) as file:
            dump = json.load(file)
        self.data = dump["data"]
        construct = os.path.join(folder, "construct.json")
        self.construct = {}
        if os.path.exists(construct):
            with open(construct) as file:
                self.construct = json.load(file)
        self.order = _execution_order(list(self.data))

    def rows(self, entry):
        return list(_rows(entry, self.data[entry]))

    def path(self, row):
        return os.path.join(self.folder, "dump_tensor_data", row.value.get("data_name") or "-")

    def parents(self, entry):
        found = []
        while True:
            parent = self.construct.get(entry)
            entry = parent[0] if isinstance(parent, (list, tuple)) else parent
            if not entry or entry in found:
                return found
            found.append(entry)


def _execution_order(names):
    """Parameter gradients stand beside the forward, but are complete after the module's backward."""
    grads = [name for name in names if name.endswith(".parameters_grad")]
    order = [name for name in names if not name.endswith(".parameters_grad")]
    for name in grads:
        prefix = name[:-len("parameters_grad")] + "backward."
        places = [i for i, other in enumerate(order) if other.startswith(prefix)]
        order.insert(places[-1] + 1 if places else len(order), name)
    return order


def _flatten(section, name, value):
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flatten(section, "%s.%d" % (name, index), item)
    elif isinstance(value, dict) and "type" not in value and "dtype" not in value:
        for key, item in value.items():
            yield from _flatten(section, "%s.%s" % (name, key), item)
    elif value is not None:
        yield Row(section, name, value)


def _rows(entry, content):
    backward = ".backward" in entry
    for key, value in content.items():
        if entry.endswith(".parameters_grad"):
            yield from _flatten("output", key, value)
        elif key in ("input_args", "input_kwargs", "input", "args", "kwargs") or key == "grad_output" and backward:
            yield from _flatten("input", "input" if key != "input_kwargs" else "kwargs", value)
        elif key == "parameters":
            yield from _flatten("parameters", key, value)
        elif key in ("output", "grad_input"):
            yield from _flatten("output", key, value)


def _load(path):
    import torch  # only where tensors are looked into: asking again needs none
    return torch.load(path, map_location="cpu").double()


def same_bits(one, other, a, b):
    """Whether row a of step `one` and row b of step `other` are bit-equal as far as the dumps tell."""
    if not a.is_tensor or not b.is_tensor:
        return a.value == b.value or repr(a.value) == repr(b.value)
    for key in ("dtype", "shape", "Max", "Min", "Mean", "Norm", "md5"):
        if repr(a.value.get(key)) != repr(b.value.get(key)):
            return False
    paths = one.path(a), other.path(b)
    if all(os.path.exists(path) for path in paths) and not filecmp.cmp(*paths, shallow=False):
        x, y = _load(paths[0]), _load(paths[1])
        return bool(((x == y) | ((x != x) & (y != y))).all())
    return True


def distance(one, other, a, b):
    """Relative distance of two rows, as large as the dumps can show it."""
    if not a.is_tensor or not b.is_tensor:
        return 0.0 if same_bits(one, other, a, b) else math.inf
    if a.value.get("shape") != b.value.get("shape"):
        return math.inf
    paths = one.path(a), other.path(b)
    if all(os.path.exists(path) for path in paths):
        x, y = _load(paths[0]), _load(paths[1])
        finite = x.isfinite() & y.isfinite()
        if bool((x.isfinite() != y.isfinite()).any()):
            return math.inf
        norm = y[finite].norm().item()
        difference = (x - y)[finite].norm().item()
        return difference / norm if norm > 0 else (math.inf if difference > 0 else 0.0)
    s, t = a.statistics(), b.statistics()
    if any(repr(v) != repr(w) and not (math.isfinite(v) and math.isfinite(w)) for v, w in zip(s, t)):
        return math.inf
    magnitude = max((abs(v) for v in t[:2] if math.isfinite(v)), default=0.0)
    scales = magnitude, magnitude, t[3] / math.sqrt(max(1, b.elements())), t[3]
    return max(abs(v - w) / (scale if 0 < scale < math.inf else 1e-300) if v != w else 0.0
               for v, w, scale in zip(s, t, scales) if math.isfinite(v))  if any(map(math.isfinite, s)) else 0.0


def noise_of(a, b):
    if not a.is_tensor or not b.is_tensor:
        return 0.0
    if a.dtype != b.dtype:
        return MIXED_NOISE
    return NOISE.get(a.dtype, 0.0)


class FirstDifference:
    """The first entry, in execution order, in which two dumps are not bit-equal."""

    def __init__(self, step, number, entry, inputs, parameters, outputs, missing):
        self.step, self.number, self.entry = step, number, entry
        self.inputs, self.parameters, self.outputs = inputs, parameters, outputs
        self.missing = missing  # the entry exists on one side only


def differing_rows(one, other, entry):
    """{section: [(row, row of the other side or None)]} of what is not bit-equal."""
    found = {"input": [], "parameters": [], "output": []}
    partners = {(row.section, row.name): row for row in other.rows(entry)}
    for row in one.rows(entry):
        partner = partners.pop((row.section, row.name), None)
        if partner is None or not same_bits(one, other, row, partner):
            found[row.section].append((row, partner))
    for row in partners.values():
        found[row.section].append((row, None))
    return found


class Dump:
    def __init__(self, folder):
        self.folder = os.path.join(folder, "dump")
        self._steps = {}

    def numbers(self):
        return sorted(int(name[4:]) for name in os.listdir(self.folder) if name.startswith("step"))

    def step(self, number):
        if number not in self._steps:
            self._steps[number] = Step(os.path.join(self.folder, "step%d" % number, "rank"))
        return self._steps[number]


def first_difference(npu, clean):
    for number in clean.numbers():
        one, other = npu.step(number), clean.step(number)
        for entry in one.order:
            if entry not in other.data:
                return FirstDifference(one, number, entry, [], [], [], True)
            rows = differing_rows(one, other, entry)
            if any(rows.values()):
                return FirstDifference(one, number, entry, rows["input"], rows["parameters"], rows["output"], False)
        missing = [entry for entry in other.order if entry not in one.data]
        if missing:
            return FirstDifference(other, number, missing[0], [], [], [], True)
    return None


def _base(entry):
    """An entry's name without its call number."""
    return ".".join(part for part in entry.split(".") if not part.isdigit() or entry.startswith("Module."))


# So many calls behind a gap must be the same on both sides for it to be one.
_WINDOW = 12


def unmatched_calls(one, other, first, is_cast=False):
    """{call: the step that has it} of the first gap: what only one of two steps has. Empty when they have the same calls.

    Where calls repeat, names alone leave open which one is missing; the gap is where values first differ. Casts stand on both
    sides of a call (is_cast): two gaps.
    """
    sides = [[entry for entry in side.order if ".forward" in entry] for side in (one, other)]
    bases = [[_base(entry) for entry in side] for side in sides]
    if bases[0] == bases[1]:
        return {}
    place = sides[0].index(first.entry) if first.entry in sides[0] else None
    if place is not None and not is_cast:
        for length in range(1, 60):
            for more, step in ((0, one), (1, other)):
                behind = bases[more][place + length:place + length + _WINDOW]
                if behind and behind == bases[1 - more][place:place + _WINDOW]:
                    return {entry: step for entry in sides[more][place:place + length]}
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *bases, autojunk=False).get_opcodes():
        if tag != "equal":
            return dict([(entry, other) for entry in sides[1][c:d]] + [(entry, one) for entry in sides[0][a:b]])
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
    if kind in ("missing", "extra", "dtype") or unmatched_calls(step, other, first):
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
        answers, rows = _pairs(calls, ["optimizer", "input" if first.inputs else "computation"]), first.inputs or first.outputs
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
_PARAMETER_PLACES = {"linear": (1, 2), "conv2d": (1, 2), "conv_transpose2d": (1, 2), "embedding": (1,), "layer_norm": (2, 3),
                     "group_norm": (2, 3), "batch_norm": (1, 2, 3, 4)}


def _is_parameter(entry, row, step):
    """Whether an input of a call is a parameter: by its place, or because a module of the same dump lists the same values."""
    if row is None or not row.is_tensor or ".forward" not in entry:
        return False
    parts = entry.split(".")
    place = row.name.rpartition(".")[2]
    if parts[0] == "Functional" and place.isdigit() and int(place) in _PARAMETER_PLACES.get(parts[1], ()):
        return True
    return any(listed.is_tensor and repr(listed.statistics()) == repr(row.statistics())
               and listed.value.get("shape") == row.value.get("shape")
               for other in step.data for listed in _parameters(step.data[other]))


def _parameters(content):
    for name, listed in (content.get("parameters") or {}).items():
        yield from _flatten("parameters", name, listed)


def _same_place(step, other, first):
    """The first entry, and modules around it that show the same: the same input, or the call that is all of them."""
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
    """What came in wrong was computed by an unrecorded call: of the innermost module that got right inputs itself."""
    for parent in step.parents(first.entry):
        if parent in other.data and parent in step.data:
            rows = differing_rows(step, other, parent)
            if not rows["input"] and not rows["parameters"] and rows["output"]:
                return [(parent, "computation")]
    return []


def _is_leaf(step, module):
    path = module.split(".forward")[0].split(".backward")[0].rsplit(".", 1)[0] + "."
    return not any(entry.startswith(path) and entry.split(".forward")[0].split(".backward")[0] !=
                   module.split(".forward")[0].split(".backward")[0] and ".parameters_grad" not in entry
                   for entry in step.data)


def _structural(case, npu, clean, bench, first):
    """Calls or dtypes differ: these need no threshold."""
    one, other = npu.step(first.number), clean.step(first.number)
    fault = case["faults"][0]
    unmatched = unmatched_calls(one, other, first, fault["kind"] == "dtype")
    if fault["kind"] == "dtype":
        calls = {entry for entry in one.order
                 if ".forward" in entry and entry in other.data and _inside(one, entry, fault["module"])
                 and _has_other_dtypes(one, other, entry)}
        calls |= {parent for entry in calls for parent in one.parents(entry)[:1] if _inside(one, parent, fault["module"])}
        if calls or unmatched:
            answers = _pairs(sorted(calls | set(unmatched)), ["dtype"])
            return Truth(first.number, answers + ([] if calls else _pairs(sorted(unmatched), ["unmatched"])),
                         effect=math.inf, background=0.0)
    elif unmatched:
        modules = {parent for entry, step in unmatched.items() for parent in step.parents(entry)[:1]}
        kinds = ["unmatched", "optimizer"] if fault["kind"] == "optimizer" else ["unmatched"]
        return Truth(first.number, _pairs(sorted(unmatched) + sorted(modules), kinds), effect=math.inf, background=0.0)
    if first.missing:
        return Truth(hidden="calls differ, but no call is missing")
    calls = _same_place(one, other, first)
    if first.inputs or first.parameters:
        return _weigh(case, npu, clean, bench, first, first.inputs or first.parameters,
                      _pairs(calls, ["input"]) + _around(one, other, first))
    return _weigh(case, npu, clean, bench, first, first.outputs, _pairs(calls, ["computation"]))


def _has_other_dtypes(one, other, entry):
    mine, theirs = ({(row.section, row.name): row.dtype for row in side.rows(entry)} for side in (one, other))
    return any(mine[key] != theirs[key] for key in mine if key in theirs)


def _inside(step, entry, module):
    if module is None:
        return False
    prefix = "Module.%s." % module
    return entry.startswith(prefix) or any(parent.startswith(prefix) for parent in step.parents(entry)) or \
        not step.construct


def _weigh(case, npu, clean, bench, first, rows, answers):
    """Whether the effect stands out from the noise and from the background."""
    one, other, third = npu.step(first.number), clean.step(first.number), bench.step(first.number)
    effect = background = floor = 0.0
    third_rows = {(row.section, row.name): row for row in third.rows(first.entry)} if first.entry in third.data else {}
    for a, b in rows:
        if b is None:
            effect = math.inf
            continue
        effect = max(effect, distance(one, other, a, b))
        c = third_rows.get((b.section, b.name))
        if c is not None:
            background = max(background, distance(other, third, b, c))
            floor = max(floor, noise_of(a, c))
    found = Truth(first.number, answers, effect=effect, background=background)
    if case["task"] == "md5":
        found.hidden = None if case["background"] == "none" else "checksums over a background"
    elif effect <= floor * ABOVE_NOISE and not (first.number == 0 and effect > 0 and ("parameter" in dict(map(reversed, answers)))):
        found.hidden = "inside the noise of the dtype"
    elif effect <= background * ABOVE_BACKGROUND:
        found.hidden = "inside what the background does there"
    return found


def inputs_are_bit_equal(npu_folder, bench_folder, number, entry):
    """Whether a call's inputs and parameters are bit-equal in both dumps (and its forward's, for a gradient)."""
    one, other = Dump(npu_folder).step(number), Dump(bench_folder).step(number)
    if entry not in one.data or entry not in other.data:
        return False
    rows = differing_rows(one, other, entry)
    return not rows["input"] and not rows["parameters"]
