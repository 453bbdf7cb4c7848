#!/usr/bin/env python3
"""Damaged tensor files through our readers and through those of PyTorch, NumPy and safetensors: both read the same values, or neither does.

usage: differential.py LIST_TENSORS [--format pt|npy|npz|safetensors]... [--files N] [--seed N] [--keep FOLDER]
                       [--emulator WORDS]

LIST_TENSORS is the program of list_tensors.cpp, which WORDS run where it is another machine's. Files are made from the seed alone, so that a
finding can be made again with --seed and --files; --keep stores what was found. Fails when both read a tensor and disagree, or when ours
reads what the other refuses, for reasons that are not in EXPECTED. Where ours refuses what the other reads (it checks more: checksums, holes,
ranges), the reasons are counted.
"""
import argparse
import collections
import io
import json
import os
import random
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

try:
    import safetensors.numpy as safetensors_numpy
except ImportError:
    safetensors_numpy = None

TORCH_DTYPES = [getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
                                                   "complex64", "complex128")]
NUMPY_DTYPES = ["<f8", ">f8", "<f4", ">f4", "<f2", "<i8", ">i4", "<i2", "|i1", "|u1", "<u2", ">u4", "<u8", "|b1", "<c8", "<c16"]
SAFETENSORS_DTYPES = {"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "U16": 2, "U32": 4, "U64": 8}


# Files that are whole.

def a_shape(rng):
    return [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(4))]


def a_torch_tensor(rng):
    dtype = rng.choice(TORCH_DTYPES)
    whole = torch.arange(400).to(dtype) if dtype != torch.bool else torch.arange(400) % 3 == 0
    shape = a_shape(rng)
    count = int(np.prod(shape)) if shape else 1
    start = rng.randrange(50)
    view = whole[start:start + count].reshape(shape)
    return view if rng.random() < 0.5 else (view.transpose(0, -1) if len(shape) > 1 else view.clone())


def a_pt(rng):
    shared = a_torch_tensor(rng)
    value = rng.choice([
        lambda: a_torch_tensor(rng),
        lambda: {"w": a_torch_tensor(rng), "b": shared, "again": shared, "step": 3},
        lambda: [a_torch_tensor(rng), {"x": a_torch_tensor(rng)}, "text", None, (shared,)],
        lambda: collections.OrderedDict(a=torch.nn.Parameter(torch.randn(2, 3)), b=shared),
    ])()
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=rng.random() < 0.7)
    return out.getvalue()


def an_array(rng):
    shape = a_shape(rng)
    array = np.arange(int(np.prod(shape)) if shape else 1).astype(rng.choice(NUMPY_DTYPES)).reshape(shape)
    return np.asfortranarray(array) if rng.random() < 0.3 else array


def an_npy(rng):
    out = io.BytesIO()
    np.lib.format.write_array(out, an_array(rng), version=rng.choice([(1, 0), (2, 0), (3, 0)]))
    return out.getvalue()


def an_npz(rng):
    out = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(out, **{name: an_array(rng) for name in ("a", "b", "c")[:rng.randrange(1, 4)]})
    return out.getvalue()


def a_safetensors(rng):
    header, data = {}, b""
    for name in ("a", "b.weight", "c")[:rng.randrange(1, 4)]:
        dtype, size = rng.choice(list(SAFETENSORS_DTYPES.items()))
        shape = a_shape(rng)
        count = int(np.prod(shape)) if shape else 1
        begin = len(data)
        data += bytes(rng.randrange(2) for _ in range(count * size))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    if rng.random() < 0.3:
        header["__metadata__"] = {"format": "np"}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


# Damage.

INTERESTING = [0, 1, 2, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def damage_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(7)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:at + rng.choice([1, 2, 8, len(data)])]
        elif kind == 3:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4])))
        elif kind == 4:
            width = rng.choice("BHIQ")
            value = rng.choice(INTERESTING) & (2 ** (8 * struct.calcsize(width)) - 1)
            data[at:at + struct.calcsize(width)] = struct.pack("<" + width, value)
        elif kind == 5:
            other = rng.randrange(len(data))
            length = rng.randrange(1, 17)
            data[at:at + length] = data[other:other + length]
        elif chr(data[at]).isdigit():
            data[at] = ord(rng.choice("0123456789"))
    return bytes(data)


def damage_members(rng, data):
    """A zip archive whose members were damaged before their checksums were made, or that has members twice, renamed or left out."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, info.compress_type, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError, OSError):
        return damage_bytes(rng, data)
    if not members:
        return data
    at = rng.randrange(len(members))
    pickles = [index for index, member in enumerate(members) if member[0].endswith("data.pkl")]
    if pickles and rng.random() < 0.6:
        at = pickles[0]
    name, method, content = members[at]
    kind = rng.randrange(8)
    if kind < 5:
        members[at] = (name, method, damage_bytes(rng, content))
    elif kind == 5:
        members.append((name, method, damage_bytes(rng, content)))
    elif kind == 6:
        members[at] = (damage_bytes(rng, name.encode()).decode("latin1"), method, content)
    else:
        del members[at]
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(out, "w") as archive:
            for name, method, content in members:
                try:
                    archive.writestr(zipfile.ZipInfo(name or "x"), content, method)
                except (UnicodeEncodeError, ValueError):
                    pass
    return out.getvalue()


def damage_header(rng, data):
    """The header of an .npy or .safetensors file, whose length is told, so that more than its length is tried."""
    if data[:6] == b"\x93NUMPY":
        width = 2 if data[6] == 1 else 4
        start = 8 + width
        length = int.from_bytes(data[8:start], "little")
        head = damage_bytes(rng, data[start:start + length])
        return data[:8] + len(head).to_bytes(8, "little")[:width] + head + data[start + length:]
    length = int.from_bytes(data[:8], "little")
    head = damage_bytes(rng, data[8:8 + length])
    return struct.pack("<Q", len(head)) + head + data[8 + length:]


MAKERS = {"pt": (a_pt, [damage_bytes, damage_members, damage_members]), "npy": (an_npy, [damage_bytes, damage_header]),
          "npz": (an_npz, [damage_bytes, damage_members]), "safetensors": (a_safetensors, [damage_bytes, damage_header])}


# The readers of others: {name: (dtype, shape, checksum)}, or the exception's text.

def checksum(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def of_torch(tensor):
    tensor = tensor.detach()
    plain = (tensor.resolve_conj().resolve_neg() if tensor.is_complex() else tensor).contiguous()
    raw = plain.view(torch.int16) if plain.dtype == torch.bfloat16 and plain.dim() else plain
    if plain.dtype == torch.bfloat16 and not plain.dim():
        raw = plain.reshape(1).view(torch.int16)
    return [str(tensor.dtype).replace("torch.", ""), list(tensor.shape), checksum(raw.numpy())]


def walk(value, path, found):
    if isinstance(value, torch.Tensor):
        if value.is_sparse or value.is_quantized or value.layout != torch.strided:
            found.setdefault("unknown", True)
        else:
            found[".".join(path)] = of_torch(value)
    elif torch.is_storage(value):
        found[".".join(path)] = of_torch(torch.tensor([], dtype=value.dtype).set_(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            walk(item, path + [str(key)], found)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            walk(item, path + [str(index)], found)
    return found


def of_numpy(array):
    array = array.astype(array.dtype.newbyteorder("<"))
    return [array.dtype.name, list(array.shape), checksum(array)]


def read_other(kind, path):
    if kind == "pt":
        return walk(torch.load(path, map_location="cpu", weights_only=True), [], {})
    if kind == "safetensors":
        return {name: of_numpy(array) for name, array in safetensors_numpy.load_file(path).items()}
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": of_numpy(loaded)}
    with loaded:
        found = {}
        for name in loaded.files:
            try:
                member = loaded[name]
            except Exception:  # pylint: disable=broad-except
                continue
            if isinstance(member, np.ndarray):
                found[name] = of_numpy(member)
        if not found:
            raise ValueError("no member can be read")
        return found


def serve_other(kind):
    """The process that reads with the other's reader: paths come in, JSON goes out. A damaged file may end it."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            answer = read_other(kind, line.rstrip("\n"))
        except MemoryError:
            answer = "MemoryError"
        except Exception as error:  # pylint: disable=broad-except
            answer = "%s: %s" % (type(error).__name__, str(error)[-300:] or "without a message")
        print(json.dumps(answer), flush=True)


class Reader:
    """A process that reads files: one path per line in, one line of JSON out. It is started again when a file ended it."""

    def __init__(self, *command):
        self.command, self.process = command, None

    def read(self, path):
        """What it answered; a text when it ended or took longer than 20 s."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.process.stdin.write(os.fsencode(path) + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 20)[0]:
            self.close()
            return "took more than 20 s"
        line = self.process.stdout.readline()
        return json.loads(line) if line else "ended with %d" % self.process.wait()

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


# What ours reads and the other refuses, and why that is right: (format, part of the other's message, reason).
EXPECTED = [
    ("pt", "WeightsUnpickler error", "PyTorch stops at the first object that it cannot make; nothing is made here, and the tensors beside it are listed"),
    ("pt", "without a message", "a tensor without elements needs no storage"),
    ("pt", "codec can't decode", "the name of a class, or a text of Python 2, that is not UTF-8: shown escaped"),
    ("pt", "not enough values to unpack", "a reference to a storage that no tensor is made of"),
    ("pt", "positional argument", "the hooks of a tensor and what follows are not needed to read it"),
    ("pt", 'hasRecord("version")', "the member version is not needed to read a file"),
    ("pt", "Couldn't parse the version", "an empty version"),
    ("pt", "not in a subdirectory", "a member outside of the archive's folder"),
    ("pt", "reading zip archive", "a contradiction in a part of the archive that no tensor needs"),
    ("pt", "reading file", "a contradiction in a part of the archive that no tensor needs"),
    ("safetensors", "file not fully covered", "bytes after the last tensor are told in a warning"),
    ("npz", "zip file version", "the version needed to extract is not looked at: methods and sizes are"),
]


def expected_refusal(kind, message):
    return next((reason for known, part, reason in EXPECTED if known == kind and part in message), None)


def judge(kind, ours, other):
    """("agree" | "stricter" | "expected" | "finding", why)"""
    mine = ours.get("tensors")
    if isinstance(other, str):
        if not mine:
            return "agree", "both refuse"
        reason = "a damaged tensor is marked, the others are listed" if ours["unreadable"] else expected_refusal(kind, other)
        return ("expected", reason) if reason else ("finding", "only ours reads it; the other: " + other)
    other.pop("unknown", None)
    if mine is None:
        return "stricter", ours["error"]
    for name, value in mine.items():
        if name in other and other[name] != value:
            return "finding", "%s is %s, for the other %s" % (name, value, other[name])
    missing = set(other) - set(mine) - set(ours["unreadable"])
    if missing or set(mine) - set(other):
        return "finding", "names: only ours %s, only the other %s" % (sorted(set(mine) - set(other))[:3], sorted(missing)[:3])
    if ours["unreadable"] and set(ours["unreadable"]) & set(other):
        return "stricter", "a tensor is marked as unreadable"
    return "agree", "both read it"


def reason_without_numbers(text):
    text = text.split(": ", 1)[-1] if text.startswith("/") else text
    return "".join("#" if character.isdigit() else character for character in text)[:90]


def run(kind, options, folder):
    rng = random.Random("%s %d" % (kind, options.seed))
    make, damages = MAKERS[kind]
    ours, other = Reader(*shlex.split(options.emulator), options.list_tensors), Reader(sys.executable, __file__, "--serve", kind)
    counts, reasons, findings = collections.Counter(), collections.Counter(), []
    path = os.path.join(folder, "file." + kind)
    for number in range(options.files):
        data = make(rng)
        if number % 20:
            for _ in range(rng.choice([1, 1, 2])):
                data = rng.choice(damages)(rng, data)
        with open(path, "wb") as file:
            file.write(data)
        mine = ours.read(path)
        outcome, why = ("finding", "ours " + mine) if isinstance(mine, str) else judge(kind, mine, other.read(path))
        counts[why if outcome == "agree" else outcome] += 1
        if outcome in ("stricter", "expected"):
            reasons["%s: %s" % (outcome, reason_without_numbers(why))] += 1
        if outcome == "finding":
            findings.append((number, why))
            if options.keep:
                Path(options.keep).mkdir(parents=True, exist_ok=True)
                (Path(options.keep) / ("%s_%d_%d.%s" % (kind, options.seed, number, kind))).write_bytes(data)
    ours.close()
    other.close()
    print("%s: %d files; %s" % (kind, options.files, ", ".join("%s %d" % item for item in sorted(counts.items()))))
    for reason, count in reasons.most_common(options.reasons):
        print("  %6d %s" % (count, reason))
    for number, why in findings[:20]:
        print("  FINDING file %d: %s" % (number, why))
    return len(findings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list_tensors")
    parser.add_argument("--format", action="append", choices=sorted(MAKERS))
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--emulator", default="")
    parser.add_argument("--reasons", type=int, default=8)
    options = parser.parse_args()
    kinds = options.format or sorted(MAKERS)
    found = 0
    with tempfile.TemporaryDirectory(prefix="msprobe_differential_") as folder:
        for kind in kinds:
            if kind == "safetensors" and safetensors_numpy is None:
                print("safetensors: skipped, the package safetensors is not installed")
                continue
            found += run(kind, options, folder)
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_other(sys.argv[2])
    else:
        sys.exit(main())
