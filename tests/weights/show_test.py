#!/usr/bin/env python3
"""msprobe show of quantised models and GGUF files: formats, values and scales, against numpy.

Usage: show_test.py MSPROBE
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

import encoders as en  # noqa: E402
import models as m  # noqa: E402

MSPROBE = sys.argv[1]


def show(path, *flags):
    result = subprocess.run([MSPROBE, "show", str(path), *flags], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def check(condition, text):
    if not condition:
        print(f"FAILED {text}")
        sys.exit(1)


def line_of(text, name):
    lines = [line for line in text.splitlines() if line.startswith(name + " ")]
    check(len(lines) == 1, f"{len(lines)} lines of {name} in:\n{text[:3000]}")
    return lines[0].split()


def main():
    with tempfile.TemporaryDirectory(prefix="msprobe-show-") as name:
        folder = Path(name)
        model = m.base_model()
        weight = "model.layers.0.mlp.up_proj.weight"
        for form, (_, _, said) in m.HF_FORMATS.items():
            child = m.write_quantised(folder / form, model, form)
            code, text = show(child, "--stats", "--limit", "0")
            check(code == 0 and "a quantised model" in text, f"{form}: {code} {text[:500]}")
            line = line_of(text, weight)
            check(" ".join(line).startswith(f"{weight} {said} ["), f"{form}: {line}")
            # Every value is within a gap of the source's, so the norm is near its norm.
            norm = np.linalg.norm(model[weight].astype(np.float64))
            numbers = [float(part) for part in line if part.replace(".", "").replace("-", "").replace("e", "").isdigit()]
            check(any(abs(number / norm - 1) < 0.1 for number in numbers), f"{form}: no norm near {norm} in {line}")
        code, text = show(folder / "fp8_block", "--stats", "--limit", "0")
        codes, scales = en.fp8(model[weight], 128, 128, en.E4M3, None)
        check(f"scales {scales.min():.4g} to {scales.max():.4g}" in text, f"scales {scales.min():.4g} to {scales.max():.4g}")
        code, text = show(folder / "fp8_block", "--offsets", "--limit", "0")
        check(code == 0 and "weight_scale_inv" in text, "--offsets shows what is stored")
        for form in en.GGUF_TYPES:
            path = m.write_gguf(folder / f"{form}.gguf", model, form)
            code, text = show(path, "--stats", "--limit", "0")
            check(code == 0, f"{form}: {code} {text[:500]}")
            line = line_of(text, "blk.0.ffn_up.weight")
            check(line[1] == form or form in ("f16", "f32", "bf16"), f"{form}: {line}")
    print(json.dumps({"formats": len(m.HF_FORMATS) + len(en.GGUF_TYPES)}))


if __name__ == "__main__":
    main()
