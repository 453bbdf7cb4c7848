#!/usr/bin/env python3
"""Makes a folder of kernel dumps for benchmarks: files of one size, in the layouts that most kernels have.

usage: make_kernel_dumps.py FOLDER FILES BYTES_PER_FILE
"""
import os
import struct
import sys
from pathlib import Path

FLOAT, FLOAT16 = 1, 2
ND, NC1HWC0, FRACTAL_NZ = 2, 3, 29


def varint(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def integer(number, value):
    return varint(number << 3) + varint(value)


def counted(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def shape(number, sizes):
    return counted(number, counted(1, b"".join(map(varint, sizes))))


def tensor(number, kind, layout, device, plain):
    """The field of an input (4) or output (3), and how many bytes it has."""
    size = 4 if kind == FLOAT else 2
    for extent in device:
        size *= extent
    places = (5, 6) if number == 4 else (6, 7)
    fields = integer(1, kind) + integer(2, layout) + shape(3, device) + integer(places[0], size) + shape(places[1], plain)
    return counted(number, fields), size


def kernels(width):
    """(type, inputs, output) of about 3 * 512 * width bytes."""
    blocks = max(width // 16, 1)
    nz = (FLOAT16, FRACTAL_NZ, (blocks, 16, 16, 16), (250, 16 * blocks - 5))
    five = (FLOAT16, NC1HWC0, (1, blocks, 16, 16, 16), (1, 16 * blocks - 3, 16, 16))
    flat = (FLOAT, ND, (128, 16 * blocks), (128, 16 * blocks))
    return [("MatMulV2", [nz, nz], nz), ("Conv2D", [five, five], five), ("Add", [flat, flat], flat)]


def main():
    folder, files, per_file = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, inputs, output in kernels(per_file // (3 * 512)):
        fields = [tensor(3, *output)] + [tensor(4, *known) for known in inputs]
        header = counted(1, b"2.0") + b"".join(field for field, _ in fields) + counted(6, b"network/" + name.encode())
        # Small numbers of either type, and no two files alike.
        payload = bytearray(os.urandom(sum(size for _, size in fields)))
        made.append((name, struct.pack("<Q", len(header)) + header, payload))
    for i in range(files):
        name, head, payload = made[i % len(made)]
        payload[:8] = struct.pack("<Q", i)
        (folder / ("%s.network_%d.%d.1.%d" % (name, i, i, 1700000000000000 + i))).write_bytes(head + payload)


if __name__ == "__main__":
    main()
