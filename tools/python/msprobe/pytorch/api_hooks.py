"""Stand-ins for PyTorch's functions: put in place while calls are recorded, taken away after."""
import inspect
import json
import os
import sys

import torch
import torch.nn.functional

from msprobe import _native

PLAIN, COLLECTIVE, ALWAYS_HANDLE = 0, 1, 2
_RETURN_HANDLES = ("isend", "irecv", "batch_isend_irecv")


def load_names(framework):
    """The functions to record: {category: names}."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                        "captured_apis.json")
    with open(path) as file:
        return json.load(file)[framework]


class Place:
    """One attribute that is replaced: of a module, a class or a namespace object."""

    def __init__(self, holder, name, replacement):
        self.holder = holder
        self.name = name
        self.replacement = replacement
        self.own = name in vars(holder)
        self.original = vars(holder)[name] if self.own else None

    def put(self):
        setattr(self.holder, self.name, self.replacement)

    def take(self):
        if self.own:
            setattr(self.holder, self.name, self.original)
        elif self.name in vars(self.holder):
            delattr(self.holder, self.name)


def _resolve(holder, dotted):
    """(holder of the last component, last component), or None where a part is missing."""
    *path, name = dotted.split(".")
    for part in path:
        holder = getattr(holder, part, None)
        if holder is None:
            return None
    return (holder, name) if hasattr(holder, name) else None


def _async_position(function):
    try:
        return list(inspect.signature(function).parameters).index("async_op")
    except (ValueError, TypeError):
        return -1


class ApiHooks:
    """All functions of the list that this PyTorch has, and those a user registered."""

    def __init__(self):
        self._places = None
        self._custom = {}
        self.installed = False

    def _categories(self):
        names = load_names("pytorch")
        yield torch.nn.functional, "Functional", names["functional"]
        yield torch.Tensor, "Tensor", names["tensor"]
        yield torch, "Torch", names["torch"]
        yield torch._VF, "VF", names["_VF"]
        npu = sys.modules.get("torch_npu")
        if npu is not None:
            yield npu, "NPU", names["torch_npu"]
            yield getattr(torch.ops, "npu", npu), "NPU", names["torch_npu"]
            if hasattr(npu, "distributed"):
                yield npu.distributed, "Distributed", names["npu_distributed"]
        mindspeed = sys.modules.get("mindspeed.ops")
        if mindspeed is not None:
            yield mindspeed, "MindSpeed", names["mindspeed"]

    def _functions(self):
        """(holder, attribute, function, prefix, recorded name) of all that are here."""
        for holder, prefix, names in self._categories():
            for dotted in names:
                found = _resolve(holder, dotted)
                if found is None:
                    continue
                function = getattr(*found)
                if not callable(function) or isinstance(function, (type, _native.Api)):
                    continue
                # linalg.norm counts with norm; a file.function of mindspeed keeps both.
                name = dotted if prefix == "MindSpeed" else found[1]
                yield found[0], found[1], function, prefix, name

    def find(self, base):
        """(holder, attribute, function) of those recorded as `base`, such as "Functional.linear"."""
        return [(holder, attribute, function)
                for holder, attribute, function, prefix, name in self._functions()
                if "%s.%s" % (prefix, name) == base]

    def _make_places(self):
        places = [Place(holder, attribute, _native.Api(function, prefix, name))
                  for holder, attribute, function, prefix, name in self._functions()]
        places.extend(self._distributed_places())
        return places

    @staticmethod
    def _distributed_places():
        distributed = sys.modules.get("torch.distributed")
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if distributed is None or c10d is None or not distributed.is_available():
            return
        for name in load_names("pytorch")["distributed"]:
            function = getattr(distributed, name, None) or getattr(c10d, name, None)
            if not callable(function) or isinstance(function, _native.Api):
                continue
            kind = ALWAYS_HANDLE if name in _RETURN_HANDLES else COLLECTIVE
            api = _native.Api(function, "Distributed", name, kind, _async_position(function))
            for holder in (distributed, c10d):
                if getattr(holder, name, None) is function:
                    yield Place(holder, name, api)

    def install(self):
        if self.installed:
            return
        if self._places is None:
            self._places = self._make_places()
        for place in self._places:
            place.put()
        self.installed = True
        self._place_of_script = Place(torch.jit, "script", self._script)
        self._place_of_script.put()

    def remove(self):
        if not self.installed:
            return
        self.installed = False
        self._place_of_script.take()
        for place in self._places:
            place.take()

    def _script(self, *args, **kwargs):
        """torch.jit.script compiles what it finds under a function's name: the originals."""
        script = self._place_of_script.original
        if not self.installed:
            return script(*args, **kwargs)
        self.remove()
        try:
            return script(*args, **kwargs)
        finally:
            self.install()

    def register_custom(self, module, name, prefix):
        """Replaces module.name for good, until restore_custom."""
        key = (id(module), name)
        if key in self._custom:
            return
        function = getattr(module, name)
        if not callable(function):
            raise ValueError("%s is not a function" % name)
        place = Place(module, name, _native.Api(function, prefix, name))
        place.put()
        self._custom[key] = place

    def restore_custom(self, module, name):
        place = self._custom.pop((id(module), name), None)
        if place is None:
            raise ValueError("%s was not registered" % name)
        place.take()
