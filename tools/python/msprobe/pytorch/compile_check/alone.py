#!/usr/bin/env python3
"""Runs the kernel of kernel.py on what it was given and judges each output by its float64 value and bound. Exit code 1: wrong.

`msprobe compile_check --repro` puts this file beside a kernel as run.py. It needs PyTorch and nothing of msprobe; of the other files it runs
kernel.py alone, which holds what was generated in the run that wrote the folder.
"""
import os
import sys

import torch


def output_of(place, saved, results):
    """"args:2", "kwargs:out" or "result:0", and within it "in:1"."""
    found = None
    for key in place:
        kind, name = key.split(":", 1)
        found = {"args": saved["args"], "kwargs": saved["kwargs"], "result": results, "in": found}[kind]
        found = found[int(name) if isinstance(found, (list, tuple)) else name]
    return found


def judged(actual, value, bound):
    """(whether it is wrong, how it stands) of one output."""
    actual = actual.reshape(value.shape)
    if value.is_floating_point():
        off = (actual.double() - value).abs()
        alike = (torch.isnan(value) & torch.isnan(actual)) | (actual.double() == value)
        off = torch.where(alike, 0.0, off.nan_to_num(float("inf"), float("inf")))
    else:
        off = torch.where(actual != value, (actual.double() - value.double()).abs().clamp(min=1.0), 0.0)
    beyond = off > bound
    ratio = torch.where(off > 0, off / bound, 0.0).nan_to_num(0.0, float("inf")).reshape(-1)
    worst = int(ratio.argmax())
    text = "error %.6g, bound %.6g, %d of %d elements beyond" % (float(off.reshape(-1)[worst]), float(bound.reshape(-1)[worst]),
                                                                  int(beyond.sum()), beyond.numel())
    return bool(beyond.any()), text


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, folder)
    from kernel import call
    saved = torch.load(os.path.join(folder, "tensors.pt"), weights_only=True)
    with torch.no_grad():
        result = call(*saved["args"], **saved["kwargs"])
    results = result if isinstance(result, (tuple, list)) else (result,)
    wrong = False
    for output in saved["outputs"]:
        is_wrong, text = judged(output_of(output["place"], saved, results), output["value"], output["bound"])
        wrong |= is_wrong
        print("%s %s: %s" % ("wrong" if is_wrong else "right", output["name"], text))
    if not saved["outputs"]:
        print("not checked: nothing is known of what comes out")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
