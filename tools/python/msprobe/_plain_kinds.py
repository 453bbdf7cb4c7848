"""How values of types that belong to no framework are described."""
import dataclasses
import sys

from msprobe import _native


def kind_of_plain(value_type):
    """The kind of a type that belongs to no framework, or None when it is not one of them."""
    if issubclass(value_type, (bool, int, float, str)):
        return _native.KIND_NUMBER
    if issubclass(value_type, tuple):
        return (_native.KIND_NAMED_TUPLE if hasattr(value_type, "_fields")
                else _native.KIND_SEQUENCE)
    if issubclass(value_type, list):
        return _native.KIND_SEQUENCE
    if issubclass(value_type, dict):
        return _native.KIND_MAPPING
    if value_type is slice:
        return _native.KIND_SLICE
    if value_type is type(Ellipsis):
        return _native.KIND_ELLIPSIS
    if dataclasses.is_dataclass(value_type):
        return _native.KIND_DATACLASS
    return None


def kind_of_numpy(value_type):
    """The kind of a numpy type, or None. numpy is not imported for this."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if issubclass(value_type, numpy.ndarray):
        return _native.KIND_ARRAY
    if issubclass(value_type, numpy.generic):
        return _native.KIND_ARRAY_SCALAR
    return None
