"""Numbers that the extension and the capture library share with us (native/state.h, capture.h)."""

# How a value of a type is described.
NULL = 0
TENSOR = 1
NUMBER = 2
SEQUENCE = 3
NAMED_TUPLE = 4
DATACLASS = 5
MAPPING = 6
SLICE = 7
ELLIPSIS = 8
SIZE = 9
DTYPE = 10
DEVICE = 11
MEMORY_FORMAT = 12
ARRAY = 13
ARRAY_SCALAR = 14
SPECIAL = 15
OTHER_TENSOR = 16

# Dtypes by the name that frameworks share, without their prefix.
DTYPE_CODES = {
    "float64": 0,
    "float32": 1,
    "float16": 2,
    "bfloat16": 3,
    "float8_e4m3fn": 4,
    "float8_e5m2": 5,
    "float8_e4m3fnuz": 6,
    "float8_e5m2fnuz": 7,
    "int64": 8,
    "int32": 9,
    "int16": 10,
    "int8": 11,
    "uint64": 12,
    "uint32": 13,
    "uint16": 14,
    "uint8": 15,
    "bool": 16,
    "complex64": 17,
    "complex128": 18,
}
DTYPE_UNKNOWN = 255

DEVICE_HOST = 0
DEVICE_ACL = 1
DEVICE_CUDA = 2

TENSOR_CONJUGATED = 1
TENSOR_NEGATED = 2

# Outcomes of a start.
START_OFF = 0
START_ON = 1
START_FINISHED = 2

LOG_DEBUG = 0
LOG_INFO = 1
LOG_WARNING = 2
LOG_ERROR = 3


def kind_of_plain(value_type):
    """The kind of a type that belongs to no framework, or None when it is not one of them."""
    import dataclasses

    if issubclass(value_type, (bool, int, float, str)):
        return NUMBER
    if issubclass(value_type, tuple):
        return NAMED_TUPLE if hasattr(value_type, "_fields") else SEQUENCE
    if issubclass(value_type, list):
        return SEQUENCE
    if issubclass(value_type, dict):
        return MAPPING
    if value_type is slice:
        return SLICE
    if value_type is type(Ellipsis):
        return ELLIPSIS
    if dataclasses.is_dataclass(value_type):
        return DATACLASS
    return None


def kind_of_numpy(value_type):
    """The kind of a numpy type, or None. numpy is not imported for this."""
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if issubclass(value_type, numpy.ndarray):
        return ARRAY
    if issubclass(value_type, numpy.generic):
        return ARRAY_SCALAR
    return None
