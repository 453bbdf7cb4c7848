"""Calls of Cells, and of the Primitives that are their attributes."""
import mindspore

from msprobe import _modules, _native
from msprobe._intercept.slots import Slot, Slots
from msprobe.mindspore import gradients


class CellHooks(_modules.ModuleHooks):
    """Which Cells are recorded."""

    word = "Cell"
    owner = mindspore.nn.Cell

    def __init__(self, session, backward):
        super().__init__(session)
        self._backward = backward

    @staticmethod
    def named(root):
        return root.cells_and_names()

    @staticmethod
    def parameters(cell):
        return {name: parameter for name, parameter in cell._params.items()
                if parameter is not None}

    @staticmethod
    def gradients_wanted():
        return gradients.available()

    def call_gradients(self, known, recorded):
        # It is made when the call has begun: the calls inside it are its own.
        call = gradients.CallGradients(self._backward, recorded.begin, recorded.end,
                                       getattr(known.reference(), "inplace", False) is True)
        self._backward.forward().append(call)
        return call

    def before(self, module, args, kwargs):
        depth = len(self._backward.forward())
        call = super().before(module, args, kwargs)
        return None if call is None else _CellCall(call, self._backward, depth)

    def gradients_expected(self):
        return gradients.available()


class _CellCall:
    """A recorded call. When it ends, so do the calls inside it."""

    __slots__ = ("args", "kwargs", "_call", "_backward", "_depth")

    def __init__(self, call, backward, depth):
        self.args, self.kwargs = call.args, call.kwargs
        self._call = call
        self._backward = backward
        self._depth = depth

    def after(self, result):
        try:
            return self._call.after(result)
        finally:
            del self._backward.forward()[self._depth:]

    def failed(self):
        self._call.failed()
        del self._backward.forward()[self._depth:]


class TorchModuleHooks(CellHooks):
    """The same for modules of a torch whose tensors are MindSpore's."""

    word = "Module"

    def __init__(self, session, backward, torch):
        super().__init__(session, backward)
        self.owner = torch.nn.Module

    @staticmethod
    def named(root):
        return root.named_modules()

    @staticmethod
    def parameters(module):
        return {name: parameter for name, parameter in module._parameters.items()
                if parameter is not None}


class PrimitiveHooks:
    """Primitives that Cells of the model hold as attributes."""

    def __init__(self):
        self._patches = []
        self._roots = {}
    def add_model(self, model):
        for root in model if isinstance(model, (list, tuple)) else [model]:
            if id(root) in self._roots:
                continue
            self._roots[id(root)] = root  # held: its id stays its own
            for _, cell in root.cells_and_names():
                self._patches.append(Slots(lambda cell=cell: _places(cell)))

    def install(self):
        for patch in self._patches:
            patch.put()

    def remove(self):
        for patch in self._patches:
            patch.take()

    def forget(self):
        self.remove()
        self._patches = []
        self._roots.clear()


def _places(cell):
    held = dict(getattr(cell, "_primitives", None) or {})
    held.update((name, value) for name, value in vars(cell).items()
                if isinstance(value, mindspore.ops.Primitive))
    for name, primitive in held.items():
        if isinstance(primitive, mindspore.ops.Primitive):
            base = "%s.%s" % (name, type(primitive).__name__)
            yield Slot(cell, name, _native.Api(primitive, "Primitive", base))
