#!/usr/bin/env python3
"""Quantised weights whose parts contradict each other: the parameter is unreadable, or has a cause, and the note names both sides
of the contradiction. Nothing else is touched by it.

Usage: hostile_test.py MSPROBE
"""

import json
import struct
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

import compare as cp  # noqa: E402
import encoders as en  # noqa: E402
import models as m  # noqa: E402

MSPROBE = sys.argv[1]
WEIGHT = "model.layers.0.mlp.up_proj.weight"  # 512x256
STEM = WEIGHT.removesuffix("weight")


def changed(form, **changes):
    """Parts of one parameter replaced: name behind the stem -> array, or a function of what is there; None: left out."""
    def make(folder, model):
        encode, config, _ = m.HF_FORMATS[form]
        tensors = m.quantised(model, encode)
        for name, change in changes.items():
            if name == "config":
                config = change(dict(config))
                continue
            key = STEM + name.replace("weight__", "weight.")
            assert key in tensors, (form, key, sorted(k for k in tensors if k.startswith(STEM)))
            if change is None:
                del tensors[key]
            else:
                tensors[key] = change(tensors[key]) if callable(change) else change
        return m.write_folder(folder, tensors, config)
    return make


def index_out_of_range(indices):
    indices = indices.copy()
    indices[7] = 1000
    return indices


def negative_index(indices):
    indices = indices.copy()
    indices[7] = -5
    return indices


def state_with(**members):
    def change(stored):
        state = json.loads(np.asarray(stored).tobytes())
        state.update(members)
        return np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    return change


# What is done, and words that the note must have.
UNREADABLE = {
    "fp8 scales of another shape": (changed("fp8_block", weight_scale_inv=np.ones((3, 5), dtype=np.float32)),
                                    ("[512, 256]", "[3, 5]")),
    "fp8 scales without elements": (changed("fp8_block", weight_scale_inv=np.ones((0, 2), dtype=np.float32)),
                                    ("weight_scale_inv", "one piece")),
    "fp8 scales of integers": (changed("fp8_block", weight_scale_inv=np.ones((4, 2), dtype=np.int64)), ("int64",)),
    "channel scales of too many rows": (changed("fp8_channel", weight_scale=np.ones((511, 1), dtype=np.float32)),
                                        ("[512, 256]", "[511, 1]")),
    "int4 scales of another shape": (changed("int4_group", weight_scale=np.ones((512, 3), dtype=np.float32)),
                                     ("[512, 256]", "[512, 3]")),
    "int4 shape that the words do not hold": (changed("int4_group", weight_shape=np.array([512, 999])), ("[512, 999]",)),
    "int4 shape without end": (changed("int4_group", weight_shape=np.array([512, 2 ** 62])), (str(2 ** 62),)),
    "int4 negative shape": (changed("int4_group", weight_shape=np.array([-1, 256])), ("[-1, 256]",)),
    "int4 zero points of another shape": (
        changed("int4_group_asymmetric", weight_zero_point=np.zeros((1, 1), dtype=np.int32)), ("zero points",)),
    "gptq group index out of range": (changed("gptq_act_order", g_idx=index_out_of_range), ("1001 groups",)),
    "gptq negative group index": (changed("gptq_act_order", g_idx=negative_index), ("group index", "-5")),
    "gptq too few group indices": (changed("gptq_act_order", g_idx=np.zeros(3, dtype=np.int32)), ("[512, 256]", "[3]")),
    "gptq scales of another shape": (changed("gptq", scales=np.ones((2, 77), dtype=np.float16)), ("[2, 77]",)),
    "gptq zero points of another shape": (changed("gptq", qzeros=np.zeros((9, 64), dtype=np.int32)), ("[9, 64]",)),
    "awq scales of another shape": (changed("awq", scales=np.ones((2, 100), dtype=np.float16)), ("[2, 100]",)),
    "nf4 shape larger than its codes": (
        changed("nf4", **{"weight__quant_state.bitsandbytes__nf4": state_with(shape=[4096, 4096])}), ("bytes",)),
    "nf4 shape without end": (
        changed("nf4", **{"weight__quant_state.bitsandbytes__nf4": state_with(shape=[2 ** 40, 2 ** 40])}), ()),
    "nf4 blocks of no size": (
        changed("nf4", **{"weight__quant_state.bitsandbytes__nf4": state_with(blocksize=0)}), ("quant_state",)),
    "nf4 nested scales that are too few": (
        changed("nf4_nested", weight__nested_absmax=np.ones(1, dtype=np.float32)), ("nested",)),
    "nvfp4 scales of another shape": (
        changed("nvfp4_modelopt", weight_scale=en.Bits("F8_E4M3", np.ones((512, 5), dtype=np.uint8))), ("[512, 5]",)),
    "mxfp4 scales of another shape": (changed("mxfp4", weight_scale=np.ones((7, 7), dtype=np.uint8)), ("[7, 7]",)),
}
CONTRADICTIONS = {
    "blocks of another size than the config says": (
        changed("fp8_block", config=lambda config: {**config, "weight_block_size": [64, 64]}),
        ("64x64", "[512, 256]", "[4, 2]", "128x128")),
    "groups of another size than the config says": (
        changed("gptq", config=lambda config: {**config, "group_size": 64}), ("64", "128")),
}


def check_parameters(name, make, words, folder, base, model, outcome):
    code, text, table = cp.compare(MSPROBE, make(folder / "child", model), base)
    if table is None or code not in (1, 3):
        return f"exit {code}: {text[:800]}"
    rows = cp.rows(table)
    if WEIGHT not in rows:
        return f"{WEIGHT} is not there"
    notes = "; ".join(rows[WEIGHT]["notes"])
    bad = [key for key, row in rows.items() if row["outcome"] not in ("identical", "equal", "rounding")]
    if rows[WEIGHT]["outcome"] != outcome or any(not key.startswith(STEM.rsplit(".", 2)[0]) for key in bad if key != WEIGHT and
                                                 outcome == "unreadable"):
        return f"{rows[WEIGHT]['outcome']}, not as they should be: {bad}, {notes}"
    missing = [word for word in words if word not in notes]
    return f"{missing} not in: {notes}" if missing else ""


def gguf_file(count=1, metadata=0, dims=(256, 512), kind=2, offset=0, data=None, name=b"blk.0.ffn_up.weight", rank=None):
    data = bytes(18 * 8 * 512) if data is None else data
    head = b"GGUF" + struct.pack("<IQQ", 3, count, metadata)
    head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(dims) if rank is None else rank)
    head += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % 32) + data


GGUF = {
    "more tensors than bytes": gguf_file(count=2 ** 40),
    "more metadata than bytes": gguf_file(metadata=2 ** 50),
    "a rank of thousands": gguf_file(rank=5000),
    "a size without end": gguf_file(dims=(2 ** 40, 2 ** 40)),
    "sizes whose product wraps": gguf_file(dims=(2 ** 32, 2 ** 32)),
    "rows that are no blocks": gguf_file(dims=(255, 512)),
    "an offset behind the end": gguf_file(offset=2 ** 60),
    "an offset that wraps": gguf_file(offset=2 ** 64 - 32),
    "a type that nobody knows": gguf_file(kind=9999),
    "a head that ends early": gguf_file()[:40],
    "a name without end": b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 2 ** 62),
    "nothing but its first bytes": b"GGUF",
}


def main():
    failed = 0
    model = m.base_model()
    with tempfile.TemporaryDirectory(prefix="msprobe-hostile-") as name:
        base = m.write_base(Path(name) / "base", model)
        for table, outcome in ((UNREADABLE, "unreadable"), (CONTRADICTIONS, "different")):
            for title, (make, words) in table.items():
                with tempfile.TemporaryDirectory(prefix="msprobe-hostile-") as folder:
                    problem = check_parameters(title, make, words, Path(folder), base, model, outcome)
                if problem:
                    failed += 1
                    print(f"FAILED {title}: {problem}", flush=True)
        for title, content in GGUF.items():
            path = Path(name) / "hostile.gguf"
            path.write_bytes(content)
            code, text, table = cp.compare(MSPROBE, path, base)
            # An error, or a tensor that is marked; never a crash and never silence.
            notes = "; ".join(str(row["notes"]) for row in table["parameters"] if row["outcome"] == "unreadable") if table else text
            if code not in (1, 2, 3) or not notes:
                failed += 1
                print(f"FAILED {title}: exit {code}: {text[:500]}", flush=True)
    print(f"{len(UNREADABLE) + len(CONTRADICTIONS) + len(GGUF)} hostile inputs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
