#!/usr/bin/python3
"""Makes two large dumps in PyTorch's layout for benchmarks of `msprobe compare`. Needs NumPy, not PyTorch.

  make_compare_dumps.py OUT tensors --count 200 --mib 2.5      tensors with their values (.pt), float32
  make_compare_dumps.py OUT statistics --rows 100000           statistics only, five rows per call

Writes OUT/npu and OUT/bench, each with dump.json, stack.json, construct.json (and dump_tensor_data).
"""
import argparse
import json
import os
import random
import struct
import zlib

HEADER_BYTES = 30
ALIGNMENT = 64


def tensor_pickle(shape):
    """data.pkl of one contiguous float32 tensor of this shape, protocol 2."""

    def integer(value):
        return b"J" + struct.pack("<i", value)

    def text(value):
        encoded = value.encode()
        return b"X" + struct.pack("<I", len(encoded)) + encoded

    def integers(values):
        return b"(" + b"".join(integer(value) for value in values) + b"t"

    elements = 1
    for size in shape:
        elements *= size
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + integer(elements) + b"tQ"
    arguments = storage + integer(0) + integers(shape) + integers(strides) + b"\x89" + b"ccollections\nOrderedDict\n)R"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR."


def write_pt(path, array):
    """A .pt file as PyTorch 1.6 and later write it: stored zip members, data at multiples of 64 bytes."""
    members = [("archive/data.pkl", tensor_pickle(array.shape)), ("archive/data/0", array.tobytes()), ("archive/version", b"3\n")]
    directory = b""
    with open(path, "wb") as file:
        for name, data in members:
            offset = file.tell()
            encoded = name.encode()
            padding = -(offset + HEADER_BYTES + len(encoded) + 4) % ALIGNMENT
            extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            crc = zlib.crc32(data)
            sizes = struct.pack("<III", crc, len(data), len(data))
            file.write(b"PK\x03\x04" + struct.pack("<HHHHH", 0, 0x0800, 0, 0, 0) + sizes
                       + struct.pack("<HH", len(encoded), len(extra)) + encoded + extra)
            file.write(data)
            directory += (b"PK\x01\x02" + struct.pack("<HHHHHH", 0, 0, 0x0800, 0, 0, 0) + sizes
                          + struct.pack("<HHHHHII", len(encoded), 0, 0, 0, 0, 0, offset) + encoded)
        start = file.tell()
        file.write(directory + b"PK\x05\x06"
                   + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), start, 0))


def write_json_files(folder, task, data, stacks, parents):
    header = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    for name, content in (("dump.json", header), ("stack.json", stacks), ("construct.json", parents)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)


def tensor_entry(maximum, minimum, mean, norm, shape, dtype, file_name=None):
    entry = {"type": "torch.Tensor", "dtype": dtype, "shape": shape, "Max": maximum, "Min": minimum, "Mean": mean,
             "Norm": norm, "requires_grad": False}
    if file_name:
        entry["data_name"] = file_name
    return entry


def make_tensors(out, count, mib):
    import numpy

    rows = max(1, int(mib * 1048576 / 4096))
    generator = numpy.random.default_rng(0)
    names = [f"Torch.matmul.{i}.forward" for i in range((count + 1) // 2)]
    for side in ("npu", "bench"):
        os.makedirs(os.path.join(out, side, "dump_tensor_data"), exist_ok=True)
    data = {"npu": {}, "bench": {}}
    for name in names:
        value = generator.standard_normal((rows, 1024), dtype=numpy.float32)
        noise = generator.standard_normal((rows, 1024), dtype=numpy.float32)
        for side, scale in (("npu", 0.0), ("bench", 1e-4)):
            arrays = {"input": value, "output": value * numpy.float32(0.5) + numpy.float32(scale) * noise}
            entry = {}
            for kind, array in arrays.items():
                file_name = f"{name}.{kind}.0.pt"
                write_pt(os.path.join(out, side, "dump_tensor_data", file_name), array)
                entry[kind] = tensor_entry(float(array.max()), float(array.min()), float(array.mean()),
                                           float(numpy.linalg.norm(array)), list(array.shape), "torch.float32", file_name)
            data[side][name] = {"input_args": [entry["input"]], "input_kwargs": {}, "is_recompute": False,
                                "output": [entry["output"]]}
    for side in ("npu", "bench"):
        write_json_files(os.path.join(out, side), "tensor", data[side],
                         {"0": [names, ["File /home/user/train.py, line 1, in forward, \n y = x @ w"]]},
                         dict.fromkeys(names))


def make_statistics(out, row_count, seed):
    generator = random.Random(seed)
    operators = ["Functional.linear", "Torch.matmul", "Tensor.__add__", "Functional.layer_norm", "Functional.softmax"]
    data = {"npu": {}, "bench": {}}
    parents, stacks = {}, {}
    for i in range(row_count // 5):
        name = f"{operators[i % len(operators)]}.{i // len(operators)}.forward"
        parents[name] = f"Module.module.layers.{i % 48}.forward.0"
        stacks.setdefault(i % 200, []).append(name)
        values = [(generator.uniform(1, 9), -generator.uniform(1, 9), generator.gauss(0, 0.1), generator.uniform(100, 9000))
                  for _ in range(4)]
        for side, noise in (("npu", 0.0), ("bench", 1e-3)):
            tensors = [tensor_entry(*[v * (1 + noise * generator.gauss(0, 1)) for v in value], [4096, 1, 1024],
                                    "torch.bfloat16") for value in values]
            data[side][name] = {"input_args": tensors[:3], "input_kwargs": {"dim": {"type": "int", "value": -1}},
                                "is_recompute": False, "output": tensors[3:]}
    groups = {str(key): [group, [f"File /home/user/model_{key}.py, line {line}, in forward, \n y = self.f_{line}(x, w)"
                                 for line in range(12)]] for key, group in stacks.items()}
    for side in ("npu", "bench"):
        os.makedirs(os.path.join(out, side), exist_ok=True)
        write_json_files(os.path.join(out, side), "statistics", data[side], groups, parents)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("kind", choices=["tensors", "statistics"])
    parser.add_argument("--count", type=int, default=200, help="tensors per side")
    parser.add_argument("--mib", type=float, default=2.5, help="size of each tensor")
    parser.add_argument("--rows", type=int, default=100000, help="result rows")
    parser.add_argument("--seed", type=int, default=0, help="of statistics")
    arguments = parser.parse_args()
    if arguments.kind == "tensors":
        make_tensors(arguments.out, arguments.count, arguments.mib)
    else:
        make_statistics(arguments.out, arguments.rows, arguments.seed)


if __name__ == "__main__":
    main()
