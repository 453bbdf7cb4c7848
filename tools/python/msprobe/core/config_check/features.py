"""What is recorded of inputs and parameters: {"max", "min", "mean", "norm"} for each tensor."""
from msprobe.core.config_check import notice

KEYS = ("max", "min", "mean", "norm")
_DEEPEST = 10
_MOST_VALUES = 10**6  # in the inputs of one forward


class Inputs:
    """Arguments in their own shape: tensors become features, lists and tuples objects with the
    index as key, everything else an empty text. Tensors without elements, too."""

    def __init__(self, statistics):
        self._statistics = statistics
        self._left = _MOST_VALUES

    def describe(self, args, kwargs):
        return {"args": self._value(args, 0), "kwargs": self._value(kwargs, 0)}

    def _value(self, value, depth):
        self._left -= 1
        if isinstance(value, self._statistics.tensor_types):
            return _or_nothing(self._statistics, value, "an input")
        try:
            items = _items(value)
        except Exception as error:  # of a class derived from dict or list
            notice.failed("an input", error)
            items = None
        if items is None:
            return ""
        if depth > _DEEPEST or self._left < 0:
            notice.once("inputs nested deeper than %d, or of more than %d values, are not recorded"
                        % (_DEEPEST, _MOST_VALUES))
            return ""
        return {str(key): self._value(item, depth + 1) for key, item in items}


def _items(value):
    """[(key, element)], or None for what is not a container."""
    if isinstance(value, (tuple, list)):
        return list(enumerate(value))
    return list(value.items()) if isinstance(value, dict) else None


def of_parameters(statistics, named):
    """{name: features}; without those that have no values here (no elements, on no device)."""
    result = {}
    for name, parameter in named:
        found = _or_nothing(statistics, parameter, "the parameter " + name, is_weight=True)
        if found != "":
            result[name] = found
    return result


def _or_nothing(statistics, tensor, what, is_weight=False):
    try:
        found = statistics.of(tensor, keeps_half=not is_weight)
    except Exception as error:
        notice.failed(what, error)
        found = None
    return "" if found is None else found
