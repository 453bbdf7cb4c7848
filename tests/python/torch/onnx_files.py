"""Operators and tensors of the ONNX project's test data (Debian's libonnx-testdata), as far as tests need them.

The format is protocol buffers, whose messages are lists of (field, value): https://protobuf.dev/programming-guides/encoding/. Fields and their numbers are
those of onnx.proto.
"""
import struct

import numpy

DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 12: "uint32",
          13: "uint64"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a message; values are ints, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def numbers(value):
    """Of a repeated integer field, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def signed(number):
    return number - (1 << 64) if number >= 1 << 63 else number


def tensor(data):
    """An array; None for types that numpy does not have, and for other kinds of values."""
    dims, dtype, raw, items = [], None, None, []
    for number, value in fields(data):
        if number == 1:
            dims += [signed(dim) for dim in numbers(value)]
        elif number == 2 and isinstance(value, int):
            dtype = DTYPES.get(value)
        elif number == 9:
            raw = value
        elif number in (4, 10):
            items += struct.unpack(f"<{len(value) // (4 if number == 4 else 8)}{'f' if number == 4 else 'd'}", value)
        elif number in (5, 7, 11):
            items += [signed(item) for item in numbers(value)]
    if dtype is None:
        return None
    array = numpy.frombuffer(raw, dtype) if raw is not None else numpy.array(items).astype(dtype)
    return array.reshape(dims) if array.size == numpy.prod(dims, dtype=int) else None


def attribute(data):
    name, value, lists = "", None, []
    for number, found in fields(data):
        if number == 1:
            name = found.decode()
        elif number == 2:
            value = struct.unpack("<f", found)[0]
        elif number == 3:
            value = signed(found)
        elif number == 4:
            value = found.decode()
        elif number == 5:
            value = tensor(found)
        elif number == 7:
            lists += struct.unpack(f"<{len(found) // 4}f", found)
        elif number == 8:
            lists += [signed(item) for item in numbers(found)]
    return name, lists or value


def node(data):
    """(operator, inputs, outputs, attributes)"""
    inputs, outputs, operator, attributes = [], [], "", {}
    for number, value in fields(data):
        if number == 1:
            inputs.append(value.decode())
        elif number == 2:
            outputs.append(value.decode())
        elif number == 4:
            operator = value.decode()
        elif number == 5:
            name, content = attribute(value)
            attributes[name] = content
    return operator, inputs, outputs, attributes


def name_of(data, number):
    return next((value.decode() for field, value in fields(data) if field == number), "")


def graph(model):
    """(nodes, names of inputs that are no initializers, {name: initializer}) of a model."""
    nodes, inputs, initializers = [], [], {}
    for number, content in fields(model):
        for kind, value in fields(content) if number == 7 else ():
            if kind == 1:
                nodes.append(node(value))
            elif kind == 5:
                initializers[name_of(value, 8)] = tensor(value)
            elif kind == 11:
                inputs.append(name_of(value, 1))
    return nodes, [name for name in inputs if name not in initializers], initializers
