"""What a good run recorded: the calls of modules in one step of one rank, and their tensors."""
import json
import os
import re

import torch

from msprobe import _native
from msprobe._files import read_text
from msprobe._intercept.runtime import own_work
from msprobe.pytorch import values

_MOST_DEPTH = 50
_LONGEST_DUMP_BYTES = 4 << 30


def _numbered(folder, word):
    """{number: folder} of the subfolders word<number>; -1 for one without a number."""
    found = {}
    for name in os.listdir(folder):
        match = re.fullmatch(word + r"(\d*)", name)
        if match and os.path.isdir(os.path.join(folder, name)):
            found[int(match.group(1) or -1)] = os.path.join(folder, name)
    return found


class Dump:
    """The folder of a run, with its steps and ranks. Raises ValueError where there is nothing to go
    by."""

    def __init__(self, path):
        self.path = path
        if not os.path.isdir(path):
            raise ValueError("the reference %s is not a folder; give the dump_path of a good run" % path)
        self._steps = _numbered(path, "step")
        if not self._steps:
            raise ValueError("the reference %s has no step folders; give the dump_path of a good run"
                             % path)

    def steps(self):
        return sorted(self._steps)

    def step(self, step, rank):
        """The calls of one step. A run of one process has a rank folder without a number."""
        ranks = _numbered(self._steps[step], "rank")
        folder = ranks.get(rank, ranks.get(-1 if rank <= 0 else None, ranks.get(0 if rank < 0 else None)))
        if folder is None:
            raise ValueError("the reference %s has no rank %d" % (self._steps[step], rank))
        return Reference(folder)


class Reference:
    """One rank of one step. Raises ValueError where modules or their tensors were not recorded."""

    def __init__(self, folder):
        path = os.path.join(folder, "dump.json")
        try:
            dump = json.loads(read_text(path, _LONGEST_DUMP_BYTES))
            self._calls = {name: call for name, call in dump["data"].items()
                           if name.startswith("Module.") and isinstance(call, dict)}
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError("the reference %s cannot be read: %s" % (path, error))
        self._tensors = os.path.join(folder, "dump_tensor_data")
        # The module torch itself is never asked for a word of the file: it imports what it lacks.
        self._dtypes = {str(dtype): dtype for dtype in values.dtypes()}
        if not self._calls:
            raise ValueError("the reference %s holds no modules: record it with level L0 or mix" % path)
        if not os.path.isdir(self._tensors) or not os.listdir(self._tensors):
            raise ValueError("the reference %s holds statistics only, and modules cannot run on "
                             "those: record it with task tensor" % path)

    def call(self, name):
        """The described call "Module.fc.Linear.forward.0", or None."""
        return self._calls.get(name)

    def read(self, described):
        """A recorded tensor on the host, or None where there is none."""
        if not isinstance(described, dict) or not isinstance(described.get("data_name"), str):
            return None
        dtype = self._dtypes.get(str(described.get("dtype")))
        shape = described.get("shape")
        if dtype is None or not isinstance(shape, list):
            return None
        path = os.path.join(self._tensors, os.path.basename(described["data_name"]))
        if not os.path.exists(path):
            return None
        with own_work():
            tensor = torch.empty(shape, dtype=dtype)
            _native.read_tensor(os.fsencode(path), tensor)
        return tensor


def paired(value, described, found, depth=0):
    """Appends (tensor, its description) for all tensors of a value, in order. Raises ValueError where
    the forms differ."""
    if isinstance(value, torch.Tensor):
        if not isinstance(described, dict) or described.get("shape") != list(value.shape):
            raise ValueError("%s is recorded where there is a tensor of %s" % (
                _form(described), list(value.shape)))
        if described.get("dtype") != str(value.dtype):
            raise ValueError("%s is recorded where there is %s" % (described.get("dtype"), value.dtype))
        found.append((value, described))
    elif depth > _MOST_DEPTH:
        raise ValueError("values are nested deeper than %d levels" % _MOST_DEPTH)
    elif isinstance(value, (list, tuple)):
        if not isinstance(described, list) or len(described) != len(value):
            raise ValueError("%s is recorded where there are %d values" % (_form(described), len(value)))
        for item, other in zip(value, described):
            paired(item, other, found, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(described, dict) or key not in described:
                raise ValueError("%s is not recorded" % key)
            paired(item, described[key], found, depth + 1)


def _form(described):
    if isinstance(described, dict):
        return "a tensor of %s" % described["shape"] if "shape" in described else "another value"
    return "a list of %d" % len(described) if isinstance(described, list) else "nothing"


def with_tensors(value, tensors):
    """The same value with tensors out of {id: other} in the place of its own."""
    if isinstance(value, torch.Tensor):
        return tensors.get(id(value), value)
    if isinstance(value, (list, tuple)):
        items = [with_tensors(item, tensors) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items) if type(value) in (list, tuple) else items
    if isinstance(value, dict):
        changed = {key: with_tensors(item, tensors) for key, item in value.items()}
        if type(value) is dict:
            return changed
        copy = value.copy()  # such as an output of Transformers
        for key, item in changed.items():
            copy[key] = item
        return copy
    return value
