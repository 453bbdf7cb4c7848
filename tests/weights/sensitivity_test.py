#!/usr/bin/env python3
"""msprobe ckpt_compare --sensitivity against numpy: errors of weights, recorded effects, bounds from statistics.

Usage: sensitivity_test.py MSPROBE
"""

import json
import subprocess
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


def dequantised(weight):
    """float64 values of the child's fp8 codes in blocks of 128x128."""
    codes, scales = en.fp8(weight, 128, 128, en.E4M3, None)
    numbers = np.asarray(en.E4M3, dtype=np.float64)[codes]
    wide = np.repeat(np.repeat(scales.astype(np.float64), 128, axis=0), 128, axis=1)
    return (numbers * wide[:weight.shape[0], :weight.shape[1]]).astype(np.float32).astype(np.float64)


def tensor_entry(array, name=None):
    entry = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape), "Max": float(array.max()),
             "Min": float(array.min()), "Mean": float(array.mean()), "Norm": float(np.linalg.norm(array.astype(np.float64))),
             "requires_grad": False}
    return {**entry, **({"data_name": name} if name else {})}


def write_dump(folder, inputs, model, tensors, prefix):
    rank = folder / "step0" / "rank0"
    (rank / "dump_tensor_data").mkdir(parents=True)
    data = {}
    for module, array in inputs.items():
        name = f"Module.{prefix}{module}.Linear.forward.0"
        output = array.reshape(-1, array.shape[-1]) @ model[module + ".weight"].T
        if tensors:
            np.save(rank / "dump_tensor_data" / f"{name}.input.0.npy", array)
        data[name] = {"input_args": [tensor_entry(array, f"{name}.input.0.npy" if tensors else None)], "input_kwargs": {},
                      "output": [tensor_entry(output)]}
    (rank / "dump.json").write_text(json.dumps({
        "task": "tensor" if tensors else "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None, "data": data}))
    return folder


def near(found, wanted, slack=1e-6):  # products of eight elements are added up in float32 first
    return found is not None and abs(found - wanted) <= slack * abs(wanted)


def check(condition, text):
    if not condition:
        print(f"FAILED {text}")
        sys.exit(1)


def main():
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory(prefix="msprobe-sensitivity-") as name:
        folder = Path(name)
        model = m.base_model()
        base = m.write_base(folder / "base", model)
        child = m.write_quantised(folder / "child", model, "fp8_block")
        inputs = {}
        for layer in range(m.LAYERS):
            # Small inputs where the other layer's are large: the order differs from that of the weights' errors.
            for module in ("self_attn.q_proj", "mlp.down_proj"):
                path = f"model.layers.{layer}.{module}"
                width = model[path + ".weight"].shape[1]
                scale = rng.random(width) ** 4
                inputs[path] = (rng.standard_normal((2, 20, width)) * scale).astype(np.float32)
        errors = {key: dequantised(value) - value for key, value in model.items() if m.is_linear(key)}
        relative = {key: np.linalg.norm(error) / np.linalg.norm(model[key].astype(np.float64)) for key, error in errors.items()}
        total = sum(np.square(error).sum() for error in errors.values())

        _, text, table = cp.compare(MSPROBE, child, base, "--sensitivity")
        check(table is not None, text)
        rows = table["sensitivity"]["parameters"]
        check([row["name"] for row in rows] == sorted(relative, key=relative.get, reverse=True), "order by errors of weights")
        for row in rows:
            check(near(row["relative_error"], relative[row["name"]]), f"relative error of {row}")
            check(near(row["share_of_error"], np.square(errors[row["name"]]).sum() / total), f"share of {row}")
            check(row["effect_on_output"] is None and row["format"] == "fp8_e4m3 block 128x128", str(row))
        for layer in table["sensitivity"]["layers"]:
            mine = [key for key in errors if key.startswith(layer["name"] + ".")]
            wanted = np.sqrt(sum(np.square(errors[key]).sum() for key in mine) /
                             sum(np.square(model[key].astype(np.float64)).sum() for key in mine))
            check(near(layer["relative_error"], wanted), f"layer {layer}")

        for tensors, prefix in ((True, ""), (True, "module."), (False, "")):
            dump = write_dump(folder / f"dump{tensors}{prefix}", inputs, model, tensors, prefix)
            for one, other, what in ((child, base, "child first"), (base, child, "base first")):
                _, text, table = cp.compare(MSPROBE, one, other, "--sensitivity", "--activations", str(dump))
                check(table is not None, text)
                wanted = {}
                for path, array in inputs.items():
                    x = array.reshape(-1, array.shape[-1]).astype(np.float64)
                    weight, error = model[path + ".weight"].astype(np.float64), errors[path + ".weight"]
                    output = np.linalg.norm((x.astype(np.float32) @ model[path + ".weight"].T).astype(np.float64))
                    wanted[path + ".weight"] = (np.linalg.norm(x @ error.T) / np.linalg.norm(x @ weight.T) if tensors else
                                                np.linalg.norm(error) * np.linalg.norm(x) / output)
                rows = table["sensitivity"]["parameters"]
                found = {row["name"]: row for row in rows if row["effect_on_output"] is not None}
                check(set(found) == set(wanted), f"{what}: {sorted(found)}")
                check([row["name"] for row in rows][:len(wanted)] == sorted(wanted, key=wanted.get, reverse=True),
                      f"{what}: order by effect")
                for key, row in found.items():
                    check(near(row["effect_on_output"], wanted[key]), f"{what}: {row}, expected {wanted[key]}")
                    check(row["basis"] == ("recorded" if tensors else "at most"), str(row))
                check(all(row["note"] for row in rows if row["effect_on_output"] is None), "why there is no effect")

        screen = subprocess.run([MSPROBE, "ckpt_compare", str(child), str(base), "-o", str(folder / "r.json"), "--sensitivity",
                                 "--activations", str(dump)], capture_output=True, text=True, check=False)
        check("Sensitivity to quantisation" in screen.stdout and "at most" in screen.stdout, screen.stdout + screen.stderr)
        bad = subprocess.run([MSPROBE, "ckpt_compare", str(child), str(base), "-o", str(folder / "r2.json"), "--sensitivity",
                              "--activations", str(base)], capture_output=True, text=True, check=False)
        check(bad.returncode == 3 and str(base) in bad.stderr, f"{bad.returncode} {bad.stderr}")
    print("sensitivity: as numpy has it")


if __name__ == "__main__":
    main()
