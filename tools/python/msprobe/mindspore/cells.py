"""Calls of Cells, and of the Primitives that are their attributes."""
import mindspore

from msprobe import _modules, _native
from msprobe._intercept.slots import Slot, Slots
from msprobe.mindspore import gradients, values


class CellHooks(_modules.ModuleHooks):
    """Which Cells are recorded."""

    word = "Cell"
    owner = mindspore.nn.Cell

    @staticmethod
    def named(root):
        return root.cells_and_names()

    @staticmethod
    def parameters(cell):
        return {name: parameter for name, parameter in cell._params.items()
                if parameter is not None}

    @staticmethod
    def gradients_wanted():
        return gradients.available() and values.gradients_are_recorded()

    def gradients_expected(self):
        """As the Python tool: gradients have their places, null, where none are computed, too."""
        return gradients.available()

    def call_gradients(self, known, recorded, own):
        return gradients.of_call(recorded, lambda: self._session.say_once(
            _native.LOG_WARNING, gradients.HIDDEN % known.base, subject=gradients.HIDDEN))


class TorchModuleHooks(CellHooks):
    """The same for modules of a torch whose tensors are MindSpore's."""

    word = "Module"

    def __init__(self, session, torch):
        super().__init__(session)
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
