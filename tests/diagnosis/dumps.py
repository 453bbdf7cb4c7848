"""Dumps as a person would read them: steps, entries in execution order, rows, and how far two rows are apart.

All comes from the dumps' own files; `msprobe compare` is not asked.
"""
import filecmp
import json
import math
import os


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

    def parameters(self):
        """All rows that modules list as their parameters."""
        for content in self.data.values():
            yield from _flatten("parameters", "parameters", content.get("parameters"))

    def path(self, row):
        return os.path.join(self.folder, "dump_tensor_data", row.value.get("data_name") or "-")

    def parents(self, entry):
        """Entries of the modules around this one, innermost first."""
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
    for key, value in content.items():
        if entry.endswith(".parameters_grad"):
            yield from _flatten("output", key, value)
        elif key in ("input_args", "input"):
            yield from _flatten("input", "input", value)
        elif key == "input_kwargs":
            yield from _flatten("input", "kwargs", value)
        elif key == "parameters":
            yield from _flatten("parameters", key, value)
        elif key == "output":
            yield from _flatten("output", key, value)


def _load(path):
    import torch  # only where tensors are looked into: asking again needs none
    return torch.load(path, map_location="cpu").double()


def same_bits(element, other, a, b):
    """Whether row a of step `one` and row b of step `other` are bit-equal as far as the dumps tell."""
    if not a.is_tensor or not b.is_tensor:
        return a.value == b.value or repr(a.value) == repr(b.value)
    for key in ("dtype", "shape", "Max", "Min", "Mean", "Norm", "md5"):
        if repr(a.value.get(key)) != repr(b.value.get(key)):
            return False
    paths = element.path(a), other.path(b)
    if all(os.path.exists(path) for path in paths) and not filecmp.cmp(*paths, shallow=False):
        x, y = _load(paths[0]), _load(paths[1])
        return bool(((x == y) | ((x != x) & (y != y))).all())
    return True


def distance(element, other, a, b):
    """Relative distance of two rows, as large as the dumps can show it."""
    if not a.is_tensor or not b.is_tensor:
        return 0.0 if same_bits(element, other, a, b) else math.inf
    if a.value.get("shape") != b.value.get("shape"):
        return math.inf
    paths = element.path(a), other.path(b)
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
    return max((abs(v - w) / (scale if 0 < scale < math.inf else 1e-300) for v, w, scale in zip(s, t, scales)
                if math.isfinite(v) and v != w), default=0.0)


class Dump:
    """The steps of a run; one rank."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "dump")
        self._steps = {}

    def numbers(self):
        return sorted(int(name[4:]) for name in os.listdir(self.folder) if name.startswith("step"))

    def step(self, number):
        if number not in self._steps:
            self._steps[number] = Step(os.path.join(self.folder, "step%d" % number, "rank"))
        return self._steps[number]


def differing_rows(element, other, entry):
    """{section: [(row, row of the other side or None)]} of what is not bit-equal."""
    found = {"input": [], "parameters": [], "output": []}
    partners = {(row.section, row.name): row for row in other.rows(entry)}
    for row in element.rows(entry):
        partner = partners.pop((row.section, row.name), None)
        if partner is None or not same_bits(element, other, row, partner):
            found[row.section].append((row, partner))
    for row in partners.values():
        found[row.section].append((row, None))
    return found


def inputs_are_bit_equal(npu_folder, bench_folder, number, entry):
    """Whether a call's inputs and parameters are bit-equal in both dumps."""
    element, other = Dump(npu_folder).step(number), Dump(bench_folder).step(number)
    if entry not in element.data or entry not in other.data:
        return False
    rows = differing_rows(element, other, entry)
    return not rows["input"] and not rows["parameters"]
