"""Frames between the program and its worker: typed values, little-endian; bytes of tensors lie in shared memory.

docs/formats/worker_frames.md has the layout, src/analysis/accuracy/check/arguments.cpp is the other side. Nothing that is read here is
ever executed, and names of operators and constants are looked up in the lists that the program has sent.
"""
import mmap
import os
import struct

MAGIC = 0x4650534D  # "MSPF"
START, READY, CALL, ANSWER = 1, 2, 3, 4
HEADER = struct.Struct("<IIQ")
U32, I64, F64, U64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<Q")
ALIGNMENT = 64
LEAST_BYTES = 1 << 20


class Device:
    """Stands for the device of the run among arguments."""


class Memory:
    """One direction of the memory that both sides share."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._map = None
        self._size = 0
        self._used = 0

    def map_whole(self):
        size = os.fstat(self._descriptor).st_size
        if size > self._size:
            self._map = mmap.mmap(self._descriptor, size)
            self._size = size
        return self._map

    def clear(self):
        self._used = 0

    def take(self, size):
        """(offset, map) of fresh room."""
        offset = (self._used + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        if offset + size > self._size:
            wanted = max(offset + size, 2 * self._size, LEAST_BYTES)
            os.posix_fallocate(self._descriptor, 0, wanted)
            self.map_whole()
        self._used = offset + size
        return offset, self._map


class Reader:
    """The values of one frame, all of closed kinds. `make` makes those of the framework: a tensor, a constant ("torch.dtype", "float32"), a
    scalar of NumPy, a torch.Size."""

    def __init__(self, payload, make):
        self.payload, self.at = payload, 0
        self._make = make

    def unpack(self, form):
        (value,) = form.unpack_from(self.payload, self.at)
        self.at += form.size
        return value

    def byte(self):
        self.at += 1
        return self.payload[self.at - 1]

    def text(self):
        size = self.unpack(U32)
        self.at += size
        return self.payload[self.at - size:self.at].decode("utf-8", "surrogateescape")

    def value(self):
        tag = chr(self.byte())
        if tag == "x":
            dtype, requires_grad, axes = self.text(), self.byte() != 0, self.byte()
            shape = [self.unpack(I64) for _ in range(axes)]
            return self._make.tensor(dtype, shape, self.unpack(U64), requires_grad)
        if tag == "i":
            return self.unpack(I64)
        if tag == "f":
            return self.unpack(F64)
        if tag in "NTF":
            return {"N": None, "T": True, "F": False}[tag]
        if tag == "s":
            return self.text()
        if tag == "l":
            return [self.value() for _ in range(self.unpack(U32))]
        if tag == "t":
            return tuple(self.value() for _ in range(self.unpack(U32)))
        if tag == "d":
            return {self.text(): self.value() for _ in range(self.unpack(U32))}
        if tag == "I":
            return int(self.text())
        if tag == "D":
            return self._make.constant(self.text(), self.text())
        if tag == "V":
            return Device
        if tag == "S":
            return self._make.size([self.value() for _ in range(self.unpack(U32))])
        if tag == "c":
            return slice(self.value(), self.value(), self.value())
        if tag == "e":
            return Ellipsis
        if tag == "n":
            return self._make.numpy_scalar(self.text(), self.value())
        raise ValueError("a frame has a value of an unknown kind")


def read_start(payload):
    """(scratch folder, bytes of memory, {kind: names}) of what the program says first."""
    reader = Reader(payload, None)
    scratch, memory = reader.text(), reader.unpack(I64)
    return scratch, memory, {reader.text(): frozenset(reader.text() for _ in range(reader.unpack(U32))) for _ in range(reader.unpack(U32))}


class Writer:
    """Values into a frame. `tensor(value)` gives (dtype, shape, offset) of a tensor, or None of anything else."""

    def __init__(self, tensor):
        self.parts = []
        self._tensor = tensor

    def byte(self, value):
        self.parts.append(bytes((value,)))

    def text(self, value):
        encoded = value.encode("utf-8", "backslashreplace")
        self.parts.append(U32.pack(len(encoded)) + encoded)

    def value(self, value):
        described = self._tensor(value)
        if described is not None:
            dtype, shape, offset = described
            self.parts.append(b"x")
            self.text(dtype)
            self.parts.append(bytes((0, len(shape))) + b"".join(I64.pack(size) for size in shape) + U64.pack(offset))
        elif value is None:
            self.parts.append(b"N")
        elif isinstance(value, bool):
            self.parts.append(b"T" if value else b"F")
        elif isinstance(value, int):
            if -2**63 <= value < 2**63:
                self.parts.append(b"i" + I64.pack(value))
            else:
                self.parts.append(b"I")
                self.text(str(value))
        elif isinstance(value, float):
            self.parts.append(b"f" + F64.pack(value))
        elif isinstance(value, str):
            self.parts.append(b"s")
            self.text(value)
        elif isinstance(value, (list, tuple)):
            self.parts.append((b"t" if isinstance(value, tuple) else b"l") + U32.pack(len(value)))
            for item in value:
                self.value(item)
        elif isinstance(value, dict):
            self.parts.append(b"d" + U32.pack(len(value)))
            for key, item in value.items():
                self.text(str(key))
                self.value(item)
        else:
            self.parts.append(b"o")
            self.text(type(value).__name__)

    def frame(self, kind):
        payload = b"".join(self.parts)
        return HEADER.pack(MAGIC, kind, len(payload)) + payload


def receive(connection, size):
    """Exactly that many bytes; None at the end."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
