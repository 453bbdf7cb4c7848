"""What a MindSpore training is to the checker."""
import mindspore

from msprobe import _native
from msprobe.core.config_check.calls import CallsOfOne
from msprobe.core.config_check.features import KEYS
from msprobe.mindspore import values
from msprobe.mindspore.ranks import rank

__all__ = ["rank"]

model_type, model_word = mindspore.nn.Cell, "mindspore.nn.Cell"


def configure():
    values.configure()


def random_functions():
    """(name in the pack, holder, attribute); the names are those that PyTorch's functions have."""
    yield "mindspore.ops.rand", mindspore.ops, "uniform"
    yield "mindspore.ops.randint", mindspore.ops, "randint"
    yield "mindspore.ops.randn", mindspore.ops, "normal"
    yield "mindspore.manual_seed", mindspore, "set_seed"


def before_replacing():
    pass


def after_replacing(replacements):
    pass


def named_parameters(model):
    return model.parameters_and_names()


def can_look():
    """Values can always be read: Cells are called from outside of a compiled graph."""
    return True


def watch_calls(model, before):
    return CallsOfOne(mindspore.nn.Cell, model, before)


class Statistics:
    """Features of the tensors of one forward, which come by way of numpy arrays."""

    def __init__(self):
        self.tensor_types = values.tensor_types()

    @staticmethod
    def of(tensor, keeps_half):
        found = _native.host_statistics(tensor, keeps_half)
        return None if found is None else dict(zip(KEYS, found))

    def finish(self):
        pass
