"""How far two runs of the modules of a model are apart, and the report of it, in the forms of the Python tool."""
import os
from collections import namedtuple

import torch

from msprobe._files import csv_row

_ABSOLUTE, _RELATIVE = 1e-4, 1e-3
CHECKS = ("fwd_input", "fwd_output", "grad_input", "grad_output")
IGNORED = "IGNORED"
NOTHING_COMPILED = "NOTHING_COMPILED"

TensorDiff = namedtuple("TensorDiff", "max_abs mean_abs max_rel allclose shape")


def kept(tensor):
    """A copy to compare: float64 stays, everything else becomes float32."""
    return tensor.detach().to("cpu", torch.float64 if tensor.dtype == torch.float64 else torch.float32, copy=True)


def difference(eager, compiled):
    """None where one side has no tensor."""
    if eager is None or compiled is None:
        return None
    if eager.shape != compiled.shape:
        return TensorDiff(float("inf"), float("inf"), float("inf"), False, tuple(eager.shape))
    if not eager.numel():
        return TensorDiff(0.0, 0.0, 0.0, True, tuple(eager.shape))
    apart = (eager - compiled).abs()
    apart = torch.where(torch.isnan(eager) & torch.isnan(compiled) | (eager == compiled), torch.zeros_like(apart), apart)
    return TensorDiff(apart.max().item(), apart.double().mean().item(), (apart / (eager.abs() + 1e-8)).max().item(),
                      torch.allclose(eager, compiled, atol=_ABSOLUTE, rtol=_RELATIVE, equal_nan=True), tuple(eager.shape))


def differences(eager, compiled):
    """A list for two lists of tensors, or None where neither side has any."""
    if not eager or not compiled:
        return None
    return [difference(a, b) for a, b in zip(eager, compiled)]


class ModuleDiff:
    """One module."""

    def __init__(self, name, note="", **lists):
        self.name = name
        self.note = note
        for check in CHECKS:
            vars(self)[check] = lists.get(check)

    def passed(self):
        if self.note == IGNORED or self.note.startswith("SKIP"):
            return True
        return not self.note and all(one is None or one.allclose for check in CHECKS for one in getattr(self, check) or ())


class CompareResult:
    """Of one comparison. `loss_eager` is NaN where the eager form ran module by module alone."""

    def __init__(self, loss_eager, loss_compiled, diffs, cast_dtype=None, compiled=True):
        self.loss_eager = loss_eager
        self.loss_compiled = loss_compiled
        self.diffs = diffs
        self.cast_dtype = cast_dtype
        self.compiled = compiled  # whether anything was

    @property
    def loss_diff(self):
        return abs(self.loss_eager - self.loss_compiled)

    @property
    def is_single_pass(self):
        return self.loss_eager != self.loss_eager

    @property
    def all_pass(self):
        return self.compiled and all(one.passed() for one in self.diffs)


def _loss_row(result):
    status = "PASS" if result.all_pass else "FAIL"
    if result.is_single_pass:
        return ["LOSS", "loss", 0, status, "N/A", "N/A", "N/A", "compiled=%.6f" % result.loss_compiled, "single_pass mode"]
    return ["LOSS", "loss", 0, status, "%.6e" % result.loss_diff, "N/A", "N/A",
            "eager=%.6f compiled=%.6f" % (result.loss_eager, result.loss_compiled), "" if result.compiled else NOTHING_COMPILED]


def _rows(result):
    yield _loss_row(result)
    for one in result.diffs:
        if one.note:
            yield [one.name, "note", 0, "SKIP" if one.passed() else "WARN", "", "", "", "", one.note]
            continue
        for check in CHECKS:
            for index, diff in enumerate(getattr(one, check) or ()):
                if diff is not None:
                    yield [one.name, check, index, "PASS" if diff.allclose else "FAIL"] + [
                        "%.6e" % value for value in diff[:3]] + [str(diff.shape), ""]


def write_csv(result, path):
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o750, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("module_name,check_type,tensor_index,status,max_abs_diff,mean_abs_diff,max_rel_diff,shape,note\r\n")
        for row in _rows(result):
            file.write(csv_row(row))


def text(result):
    """The report for people."""
    lines = []
    for heading, checks in (("FORWARD INPUT", ("fwd_input",)), ("FORWARD OUTPUT", ("fwd_output",)),
                            ("BACKWARD", ("grad_input", "grad_output"))):
        lines.append(heading)
        for one in result.diffs:
            if one.note and checks == ("fwd_output",):
                lines.append("  %-40s %s" % (one.name, one.note))
            for check in checks:
                for index, diff in enumerate(getattr(one, check) or ()):
                    if diff is not None:
                        lines.append("  %-40s %s[%d] %s max_abs %.6e max_rel %.6e" % (
                            one.name, check, index, "PASS" if diff.allclose else "FAIL", diff.max_abs, diff.max_rel))
    lines.append("RESULT: " + ("ALL PASS" if result.all_pass else "FAILED" if result.compiled
                               else "NOTHING COMPILED: mark modules with wrap, wrap_by_policy or wrap_all_children"))
    return "\n".join(lines)
