#!/usr/bin/env python3
"""Writes what a device would have dumped below route.py: one file per kernel of the forward pass, and an overflow record.

usage: make_kernels.py FOLDER
       make_kernels.py --graph FOLDER     only what overflows, as an operator of a MindSpore graph

No device is needed: the numbers are those of the script, put into the files and layouts that docs/formats/kernel_dumps.md describes.
"""
import struct
import sys
from pathlib import Path

import torch
from torch.nn import functional

from route import Router

TYPES = {torch.float32: 1, torch.float16: 2, torch.uint8: 4}
ND, FRACTAL_NZ = 2, 29
STREAM, FIRST_TASK, BEGIN = 2, 11, 1763632800000000
AIV, RECORD_MAGIC, OVERFLOW_BIT = 1, 0x5A5A5A5A, 8


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


def blocks(matrix, block=16):
    """The matrix as FRACTAL_NZ: [columns / 16, rows / 16, 16, 16], padded with zeros."""
    padded = functional.pad(matrix, (0, -matrix.shape[1] % block, 0, -matrix.shape[0] % block))
    rows, columns = padded.shape
    return padded.reshape(rows // block, block, columns // block, block).permute(2, 0, 1, 3).contiguous()


def described(number, tensor, layout):
    """The field of an input (4) or output (3), and the bytes behind the header."""
    on_device = blocks(tensor) if layout == FRACTAL_NZ else tensor.contiguous()
    data = on_device.numpy().tobytes()
    size, original = (5, 6) if number == 4 else (6, 7)
    fields = (integer(1, TYPES[tensor.dtype]) + integer(2, layout) + shape(3, on_device.shape) + integer(size, len(data)) +
              shape(original, tensor.shape))
    return counted(number, fields), data


def write(folder, name, op_name, inputs, outputs):
    header, payload = counted(1, b"2.0"), b""
    outputs = [described(3, *tensor) for tensor in outputs]
    inputs = [described(4, *tensor) for tensor in inputs]
    header += b"".join(field for field, _ in outputs + inputs) + counted(6, op_name.encode())
    payload = b"".join(data for _, data in inputs + outputs)
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + payload)


def main():
    as_graph = sys.argv[1] == "--graph"
    folder = Path(sys.argv[-1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    router = Router()
    words = torch.randn(20, 16)
    with torch.no_grad():
        weight, bias = router.gate.weight.detach(), router.gate.bias.detach()
        products = words @ weight.t()
        gated = router.gate(words)
        scores = gated.half()
        sharp = torch.mul(scores, router.sharpness)
        wide = sharp.float()
        chosen = functional.softmax(wide, dim=-1)
    kernels = [
        ("MatMulV2", "gate", [(words, FRACTAL_NZ), (weight, FRACTAL_NZ)], [(products, FRACTAL_NZ)]),
        ("Add", "gate_bias", [(products, ND), (bias, ND)], [(gated, ND)]),
        ("Cast", "to_half", [(gated, ND)], [(scores, ND)]),
        ("Mul", "sharpen", [(scores, ND), (router.sharpness, ND)], [(sharp, ND)]),
        ("Cast", "to_float", [(sharp, ND)], [(wide, ND)]),
        ("SoftmaxV2", "softmax", [(wide, ND)], [(chosen, ND)]),
    ]
    for i, (op_type, op_name, inputs, outputs) in enumerate(kernels):
        if as_graph and op_type != "Mul":
            continue
        op_name = "Default/network-Router/Mul-op3" if as_graph else op_name
        name = "%s.%s.%d.%d.%d" % (op_type, op_name.replace("/", "_"), FIRST_TASK + i, STREAM, BEGIN + 40 * i)
        write(folder, name, op_name, inputs, outputs)
        if op_type == "Mul":
            task, context, core = FIRST_TASK + i, 65535, 3
            fields = [0, STREAM, task, 0, context, context, 0x12C0C0013000, 0x12C100401000, core, 0, OVERFLOW_BIT]
            record = struct.pack("<6I11Q", RECORD_MAGIC, 0, 1, AIV, 0, 8 * len(fields), *fields)
            write(folder, "Opdebug.Node_OpDebug.%d.%d.%d" % (task, STREAM, BEGIN + 40 * i + 20), "Node_OpDebug", [],
                  [(torch.frombuffer(bytearray(record), dtype=torch.uint8), ND)])


if __name__ == "__main__":
    main()
