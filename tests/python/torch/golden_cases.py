"""Which run makes which recorded case, how two dumps are held against each other, and where ours is
meant to differ."""
import collections
import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))

Case = collections.namedtuple("Case", ["name", "script", "arguments"])


def _train(name, *arguments):
    return Case(name, "train", list(arguments))


CASES = [
    _train("cnn_tensor_mix", "--model", "cnn", "--steps", "2"),
    _train("gpt_statistics_mix"),
    _train("gpt_statistics_L0", "--no-opt"),
    _train("gpt_statistics_L1", "--no-opt"),
    _train("gpt_md5_L1", "--no-opt", "--steps", "2"),
    _train("gpt_tensor_L1", "--no-opt"),
    _train("gpt_tensor_L0", "--no-opt"),
    _train("gpt_debug_tensor", "--save", "--no-opt", "--steps", "2"),
    _train("gpt_debug_statistics", "--save", "--no-opt"),
    _train("gpt_structure_mix", "--no-opt"),
    _train("gpt_structure_mix_perturbed", "--ckpt", "--no-opt"),
    _train("gpt_overflow_L1", "--inf", "--no-opt"),
    _train("gpt_bf16_statistics_mix", "--dtype", "bfloat16", "--no-opt"),
    _train("gpt_bf16_md5_L1", "--dtype", "bfloat16", "--no-opt"),
    _train("gpt_bf16_tensor_L1", "--dtype", "bfloat16", "--no-opt"),
    _train("gpt_recompute_mix", "--ckpt", "--no-opt"),
    _train("gpt_list_L1", "--no-opt"),
    _train("gpt_list_mix", "--no-opt"),
    _train("gpt_scope_L1", "--no-opt"),
    _train("gpt_scope_L0", "--no-opt"),
    _train("gpt_scope_mix", "--no-opt"),
    _train("gpt_datamode_forward_input", "--no-opt"),
    _train("gpt_step_range", "--steps", "6", "--no-opt"),
    _train("gpt_async_tensor_L1", "--no-opt"),
    Case("dist_statistics_mix", "distributed", []),
    Case("argtypes_tensor_mix", "arguments", []),
    Case("argtypes_md5_L1", "arguments", []),
]
# Each has a recorded twin with one layer changed, except where the twin differs in another way or
# would show nothing new.
WITHOUT_TWIN = ("gpt_structure_mix", "gpt_structure_mix_perturbed", "gpt_list_L1", "gpt_list_mix",
                "gpt_scope_L1", "gpt_scope_L0", "gpt_scope_mix", "gpt_datamode_forward_input",
                "gpt_step_range", "gpt_async_tensor_L1")
CHANGED_LAYERS = {"cnn": "conv1", "argtypes": "m.lin"}
CASES += [
    Case(case.name + "_perturbed", case.script, case.arguments + [
        "--perturb", CHANGED_LAYERS.get(case.name.split("_")[0], "blocks.0.mlp.fc1")])
    for case in CASES if case.name not in WITHOUT_TWIN]

STATISTICS = ("Max", "Min", "Mean", "Norm")

# Where ours is meant to differ, and why: in cases, entries (both by how they begin) and places (by
# what their path contains). This is the only list.
# (ABSENT: the entry is not there at all.)
ABSENT = "no such entry"
Deviation = collections.namedtuple("Deviation", ["case", "entry", "place", "reason"])
DEVIATIONS = [
    Deviation("argtypes", "Torch.abs.6.forward", "",
              "integers are reduced exactly, not after a cast to float32"),
    Deviation("argtypes", "Torch.abs.7.forward", "",
              "float64 keeps its range: 1e300 is not Infinity"),
    Deviation("argtypes", "Torch.abs.8.forward", "", "the same for a 0-d tensor"),
    Deviation("argtypes", "Torch.abs.9.forward", "Norm", "complex tensors have a norm"),
    Deviation("argtypes", "Torch.abs.10.forward", "Norm", "complex tensors have a norm"),
    Deviation("argtypes", "Torch.abs.11.forward", "",
              "float16 statistics do not overflow: mean and norm of finite values are finite"),
    Deviation("argtypes", "Module.m.Multi.forward.1", "input_kwargs.kw",
              "a dtype is described wherever it stands"),
    Deviation("argtypes", "Module.m.Multi.forward.1", "input_kwargs.dc",
              "a device is described wherever it stands"),
    Deviation("argtypes", "Tensor.__eq__.0.forward", "output.0",
              "comparing with None means what it means without recording"),
    Deviation("argtypes_tensor_mix", "Tensor.__add__.1.backward", ABSENT,
              "a result that nothing uses gets no gradient: recorded is what a node that the "
              "recorder put into the graph makes out of nothing"),
    Deviation("argtypes_tensor_mix", "Tensor.__mul__.2.backward", ABSENT, "the same"),
    Deviation("argtypes_tensor_mix", "Tensor.sum.1.backward", ABSENT, "the same"),
    Deviation("cnn_", "Tensor.add_.0.forward", "input_args.0",
              "statistics of a 0-d input are those before the call, not after its change in place"),
    Deviation("gpt_statistics_mix", "Tensor.__iadd__.", "input_args.0",
              "statistics of a 0-d input are those before the call, not after its change in place"),
    Deviation("dist_", "Distributed.all_reduce.2.forward", "value",
              "a reduction has its name, not the address of an object"),
    Deviation("dist_", "Distributed.all_reduce.2.forward", "input_args.0",
              "statistics of a 0-d input are those before the call, not after its change in place"),
    Deviation("gpt_scope_L1", "Functional.gelu.0.forward", "output",
              "the last call of a scope has its output"),
    Deviation("gpt_scope_mix", "Functional.softmax.1.forward", "output",
              "the last call of a scope has its output"),
]
# Besides, in every case: the norm of a 0-d tensor is its absolute value (recorded: the value), and
# norms of bfloat16 are of exact sums (recorded: sums kept in bfloat16, some per cent too small for
# views that are not contiguous).
LOOSE_BFLOAT16_NORM = 2.0**-5


def is_meant(case, entry, place):
    return any(case.startswith(known.case) and entry.startswith(known.entry)
               and known.place in place for known in DEVIATIONS)


def is_absent(case, entry):
    return any(case.startswith(known.case) and entry == known.entry and known.place == ABSENT
               for known in DEVIATIONS)


# ---- comparison ----

def is_tensor(value):
    return isinstance(value, dict) and "dtype" in value and "shape" in value


def hang_on_the_cpu(case):
    """Convolutions and bfloat16 products are summed in an order that differs between processors."""
    return case.startswith("cnn") or "bf16" in case


def updates_weights(entry):
    """Adam makes steps of full length out of gradients that are rounding errors (the bias of keys),
    and these differ between processors."""
    return entry.startswith("Tensor.addcdiv_")


class Comparison:
    """Differences of two recorded steps as texts. Recorded with the same PyTorch build: statistics
    within 1e-6; with another one (`same_build` False), and where values hang on the processor:
    within 2e-5 and the noise of sums that are zero, and no checksums."""

    def __init__(self, case, same_build):
        self.case = case
        self.same_build = same_build
        self.same_kernels = same_build and not hang_on_the_cpu(case)
        self.relative = 1e-6 if self.same_kernels else 2e-5
        self.noise = 1e-12 if self.same_kernels else 5e-7
        self.found = []

    def _differ(self, entry, place, expected, actual):
        if not is_meant(self.case, entry, place):
            self.found.append("%s %s: recorded %s, ours %s"
                              % (entry, place, _short(expected), _short(actual)))

    def dumps(self, expected, actual):
        for key in ("task", "level", "framework"):
            if expected[key] != actual.get(key):
                self._differ("top level", key, expected[key], actual.get(key))
        names = [name for name in expected["data"] if not is_absent(self.case, name)]
        own_names = list(actual["data"])
        if names != own_names:
            missing = [name for name in names if name not in actual["data"]]
            extra = [name for name in own_names if name not in expected["data"]]
            self._differ("names", "", "missing %s" % missing[:5] if missing else "order",
                         "more %s" % extra[:5])
        for name, entry in expected["data"].items():
            if name in actual["data"]:
                self._values(name, "", entry, actual["data"][name])

    def _values(self, entry, place, expected, actual):
        if is_tensor(expected) and is_tensor(actual):
            self._tensors(entry, place, expected, actual)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            if list(expected) != list(actual):
                missing = "".join(key for key in actual if key not in expected) or "keys"
                self._differ(entry, _join(place, missing), list(expected), list(actual))
            for key in expected:
                if key in actual:
                    self._values(entry, _join(place, key), expected[key], actual[key])
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                self._differ(entry, place, expected, actual)
            for index, (item, other) in enumerate(zip(expected, actual)):
                self._values(entry, _join(place, index), item, other)
        elif type(expected) is not type(actual) or not _same(expected, actual):
            self._differ(entry, place, expected, actual)

    def _tensors(self, entry, place, expected, actual):
        if list(expected) != list(actual):
            self._differ(entry, place, list(expected), list(actual))
        for key in expected:
            if key in STATISTICS and key in actual:
                if not self._close(key, expected, actual, updates_weights(entry)):
                    self._differ(entry, _join(place, key), expected[key], actual[key])
            elif key == "md5" and not self.same_kernels:
                continue
            elif key in actual and expected[key] != actual[key]:
                self._differ(entry, _join(place, key), expected[key], actual[key])

    def _close(self, key, expected, actual, loosely=False):
        item, other = expected[key], actual[key]
        if isinstance(item, bool) or isinstance(other, bool) or item is None or other is None:
            return item is other
        if key == "Norm" and expected["shape"] == []:
            item = abs(item)
        if _same(item, other):
            return True
        if not (math.isfinite(item) and math.isfinite(other)):
            return False
        relative = max(self.relative, 5e-4) if loosely else self.relative
        if "bfloat16" in expected["dtype"]:
            ulp = 2.0**-7 if self.same_kernels else 2.0**-5
            relative = max(relative, LOOSE_BFLOAT16_NORM if key == "Norm" else ulp)
        elif "float16" in expected["dtype"]:
            relative = max(relative, 2.0**-10)
        # A mean is a sum of values of either sign: its error is one of the largest of them.
        largest = max([abs(expected[name]) for name in ("Max", "Min")
                       if isinstance(expected[name], (int, float))
                       and math.isfinite(expected[name])] + [abs(item)])
        scale = largest if key == "Mean" else max(abs(item), abs(other))
        return abs(item - other) <= relative * scale + self.noise

    def constructs(self, expected, actual):
        # What was taken out of the other set (see its README) had put parents in early.
        expected = {name: parent for name, parent in expected.items()
                    if not is_absent(self.case, name)}
        names, own_names = list(expected), list(actual)
        # Parents are put in by their first child, which may be one of the absent ones.
        in_order = self.same_build and not any(known.place == ABSENT
                                               and self.case.startswith(known.case)
                                               for known in DEVIATIONS)
        if (names != own_names) if in_order else (sorted(names) != sorted(own_names)):
            self._differ("construct.json", "order", [name for name in names if name not in actual],
                         [name for name in own_names if name not in expected])
        for name in expected:
            if expected[name] != actual.get(name, "missing"):
                self._differ("construct.json", name, expected[name], actual.get(name, "missing"))

    def stacks(self, expected, actual, own_scripts):
        """The same names; and of each the frames that lie in the script itself."""
        item, other = _frames_by_name(expected), _frames_by_name(actual)
        for name in list(item) + list(other):
            if (name in item) != (name in other) and not self._ends_scope(name):
                self._differ("stack.json", name, name in item, name in other)
        for name in item:
            if own_scripts and name in other:
                frames = [_script_frame(frame) for frame in item[name]]
                own_frames = [_script_frame(frame) for frame in other[name]]
                if [frame for frame in frames if frame] != [frame for frame in own_frames if frame]:
                    self._differ("stack.json", name, frames, own_frames)

    def _ends_scope(self, name):
        return any(self.case.startswith(known.case) and known.entry == name
                   and known.place == "output" for known in DEVIATIONS)


def _frames_by_name(stacks):
    return {name: frames for names, frames in stacks.values() for name in names}


def _script_frame(frame):
    """File, function and source of a frame in a driver or its models; None elsewhere. Lines: the
    recorded runs imported one thing more."""
    path, _, rest = frame.partition(", line ")
    name = os.path.basename(path)
    return name + rest.partition(",")[2] if name in ("train.py", "models.py", "argtypes.py",
                                                     "dist.py") else None


def _same(item, other):
    if isinstance(item, float) and isinstance(other, float):
        return item == other or (math.isnan(item) and math.isnan(other))
    return item == other


def _join(place, key):
    return "%s.%s" % (place, key) if place else str(key)


def _short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."


def load(path):
    with open(path) as file:
        return json.load(file)
