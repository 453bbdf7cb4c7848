"""Calls of Cells, and of the Primitives that are their attributes."""
import mindspore

from msprobe import _modules, _native
from msprobe._apis import Patches, Place
from msprobe.mindspore import gradients


class CellHooks(_modules.ModuleHooks):
    """Which Cells are recorded, and the replacement of Cell.__call__."""

    word = "Cell"
    owner = mindspore.nn.Cell

    def __init__(self, session, without_hooks, backward):
        super().__init__(session, without_hooks)
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

    def call_gradients(self, on_begin, on_end):
        # It is made when the call has begun: the calls inside it are its own.
        call = gradients.CallGradients(self._backward, on_begin, on_end)
        self._backward.forward().append(call)
        return call

    def _record(self, known, module, args, kwargs):
        forward = self._backward.forward()
        depth = len(forward)
        try:
            return super()._record(known, module, args, kwargs)
        finally:
            del forward[depth:]

    def _expect_gradients(self, known):
        if gradients.available():
            super()._expect_gradients(known)


class TorchModuleHooks(CellHooks):
    """The same for modules of a torch whose tensors are MindSpore's."""

    word = "Module"

    def __init__(self, session, without_hooks, backward, torch):
        super().__init__(session, without_hooks, backward)
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
        self.installed = False

    def add_model(self, model):
        for root in model if isinstance(model, (list, tuple)) else [model]:
            if id(root) in self._roots:
                continue
            self._roots[id(root)] = root  # held: its id stays its own
            for _, cell in root.cells_and_names():
                self._patches.append(Patches(lambda cell=cell: _places(cell)))

    def install(self):
        self.installed = True
        for patch in self._patches:
            patch.put()

    def remove(self):
        self.installed = False
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
            yield Place(cell, name, _native.Api(primitive, "Primitive", base))
