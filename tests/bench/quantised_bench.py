#!/usr/bin/env python3
"""Times `msprobe ckpt_compare` of a bfloat16 model with its quantised children, beside the Python way in the same run: read
with safetensors, dequantise with torch, compare in torch.

  tests/bench/quantised_bench.py [--mb 512] [--runs 5] [--threads 1] [MSPROBE]

Needs torch and numpy; safetensors files are read with torch alone where the package is missing. Figures are the fastest of the
runs, files in memory: "GB/s" is bytes of the quantised side per second; "CPU" the processor time of all threads. The roof is a
read of both sides' files in the same run.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "weights"))
import encoders as en  # noqa: E402

ROWS, COLUMNS = 4096, 4096


def header(tensors):
    entries, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write(folder, kinds, weights, config=None):
    """`kinds`: per weight a function that gives its tensors, name to (dtype, array)."""
    folder.mkdir(parents=True)
    parts = []
    for index, weight in enumerate(weights):
        parts.append({f"model.layers.{index}.mlp.up_proj.{name}": part for name, part in kinds(weight).items()})
    flat = {name: part for of in parts for name, part in of.items()}
    with open(folder / "model.safetensors", "wb") as file:
        file.write(header({name: (dtype, array.shape, array.nbytes) for name, (dtype, array) in flat.items()}))
        for _, array in flat.values():
            file.write(np.ascontiguousarray(array).tobytes())
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **({"quantization_config": config} if config else {})}))


def bf16(weight):
    return {"weight": ("BF16", weight.view(torch.int16).numpy())}


def fp8(weight):
    blocks = weight.float().reshape(ROWS // 128, 128, COLUMNS // 128, 128)
    scale = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn) if hasattr(torch, "float8_e4m3fn") else None
    bits = codes.view(torch.uint8).numpy() if codes is not None else en.fp8(weight.float().numpy(), 128, 128, en.E4M3, None)[0]
    return {"weight": ("F8_E4M3", bits.reshape(ROWS, COLUMNS)), "weight_scale_inv": ("F32", scale.numpy())}


def int4(weight):
    groups = weight.float().reshape(ROWS, COLUMNS // 128, 128)
    scale = groups.abs().amax(2) / 7
    codes = (groups / scale[:, :, None]).round().clamp(-8, 7).to(torch.int32).reshape(ROWS, -1, 8) + 8
    words = sum(codes[:, :, i].to(torch.int64) << (4 * i) for i in range(8)).to(torch.int64)
    words = torch.where(words >= 2 ** 31, words - 2 ** 32, words).to(torch.int32)
    return {"weight_packed": ("I32", words.numpy()), "weight_scale": ("F32", scale.numpy()),
            "weight_shape": ("I64", np.array([ROWS, COLUMNS]))}


INT4_CONFIG = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
    "targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 128, "strategy": "group", "symmetric": True}}}}
FORMS = {"fp8": ("fp8 block 128x128", fp8, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
         "int4": ("int4 group 128", int4, INT4_CONFIG)}


class Reader:
    """Tensors of a safetensors file, as the package gives them."""

    DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32, "I32": torch.int32, "I64": torch.int64, "F8_E4M3": torch.uint8}

    def __init__(self, path):
        self.bytes = np.memmap(path, mode="r")
        size = int.from_bytes(self.bytes[:8].tobytes(), "little")
        self.entries, self.base = json.loads(self.bytes[8:8 + size].tobytes()), 8 + size

    def get(self, name):
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        data = torch.from_numpy(self.bytes[self.base + begin:self.base + end].copy())
        return data.view(self.DTYPES[entry["dtype"]]).reshape(entry["shape"])


def dequantise(form, reader, prefix):
    if form == "fp8":
        codes = reader.get(prefix + "weight")
        codes = codes.view(torch.float8_e4m3fn).float()
        scale = reader.get(prefix + "weight_scale_inv")
        return (codes.reshape(ROWS // 128, 128, -1, 128) * scale[:, None, :, None]).reshape(ROWS, COLUMNS)
    words = reader.get(prefix + "weight_packed")
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    codes = ((words[:, :, None] >> shifts) & 15).reshape(ROWS, -1, 128) - 8
    return (codes * reader.get(prefix + "weight_scale")[:, :, None]).reshape(ROWS, COLUMNS)


def python_way(form, child, base, count):
    """Norm of the difference, largest error, cosine and equal elements, as msprobe tells."""
    one, other = Reader(child / "model.safetensors"), Reader(base / "model.safetensors")
    for index in range(count):
        prefix = f"model.layers.{index}.mlp.up_proj."
        a, b = dequantise(form, one, prefix), other.get(prefix + "weight").float()
        difference = (a - b).abs()
        _ = (difference.norm().item(), difference.max().item(), (a.flatten() @ b.flatten()).item(), a.norm().item(),
             b.norm().item(), (a != b).sum().item())


def cpu_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def fastest(runs, who, call):
    best = None
    for _ in range(runs):
        begin, used = time.perf_counter(), cpu_seconds(who)
        call()
        took = (time.perf_counter() - begin, cpu_seconds(who) - used)
        best = took if best is None or took[1] < best[1] else best
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=512, help="of bfloat16")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("msprobe", nargs="?", default=str(ROOT / "build/bin/msprobe"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    count = max(1, arguments.mb * 1_000_000 // (2 * ROWS * COLUMNS))
    print(f"{count} weights of {ROWS}x{COLUMNS}, {arguments.threads} thread(s), load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="msprobe-quantised-", dir=os.environ.get("BENCH_FOLDER")) as name:
        folder = Path(name)
        torch.manual_seed(1)
        weights = [(torch.randn(ROWS, COLUMNS) * 0.02).to(torch.bfloat16) for _ in range(count)]
        write(folder / "base", bf16, weights)
        for form, (title, encode, config) in FORMS.items():
            write(folder / form, encode, weights, config)
            size = (folder / form / "model.safetensors").stat().st_size

            def ours(form=form):
                result = subprocess.run([arguments.msprobe, "ckpt_compare", folder / form, folder / "base", "-o", folder / "r.json",
                                         "--force", "--threads", str(arguments.threads)], capture_output=True, text=True, check=True)
                assert "EXPECTED ROUNDING" in result.stdout, result.stdout

            def read(form=form):
                for side in (form, "base"):
                    with open(folder / side / "model.safetensors", "rb", buffering=0) as file:
                        block = bytearray(1 << 20)
                        while file.readinto(block):
                            pass

            for label, who, call in (("msprobe", resource.RUSAGE_CHILDREN, ours),
                                     ("read of both files", resource.RUSAGE_SELF, read),
                                     ("torch", resource.RUSAGE_SELF, lambda form=form: python_way(form, folder / form, folder / "base", count))):
                if label == "torch" and arguments.no_python:
                    continue
                wall, cpu = fastest(arguments.runs, who, call)
                print(f"{title:20} {label:20} {wall:7.3f} s  {cpu:7.3f} s CPU  {size / wall / 1e9:6.2f} GB/s  "
                      f"{size / cpu / 1e9:6.2f} GB per CPU second", flush=True)


if __name__ == "__main__":
    main()
