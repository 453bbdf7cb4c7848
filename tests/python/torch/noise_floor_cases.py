"""Calls of known conditioning, and how many digits of their results are right.

A tensor in a training is the rounded result of what came before: each number stands for all the real ones that round to it. So a
case gives a call of PyTorch floating numbers, draws real ones of 50 digits that round to them, four times over, and compares what
the call gives with what mpmath gives for these: digits = -log10(|computed - exact| / |exact|), norms over all elements and draws.
`judge` sets beside them what `msprobe dump --repeat` records."""
import json
import math
import os
import random
import sys
import tempfile

import mpmath
import torch
import torch.nn.functional as F
from mpmath import mpf

mpmath.mp.dps = 50
DRAWS = 4
ROWS = 16
LENGTH = 48


def real(lots, low=-1.0, high=1.0):
    return mpf(low) + (mpf(lots.random()) + mpf(lots.random()) * mpf(2) ** -52) * (mpf(high) - mpf(low))


def _row(lots, length=LENGTH):
    return [real(lots) for _ in range(length)]


def _cancelling(lots, condition, factors=None):
    """A row whose sum (of products with `factors`) is 1/condition of the sum of their sizes."""
    row = _row(lots)
    factors = factors or [mpf(1)] * LENGTH
    terms = [a * b for a, b in zip(row[:-1], factors)]
    size = sum(abs(term) for term in terms)
    row[-1] = (size / condition - sum(terms)) / factors[-1]
    return row


def _rows(make):
    return [make() for _ in range(ROWS)]


# ---- a family: (lots, condition) -> (inputs as nested lists of real numbers, call of PyTorch, exact call) ----

def _sum(lots, condition):
    return [_rows(lambda: _cancelling(lots, condition))], lambda x: torch.sum(x, -1), lambda x: [mpmath.fsum(row) for row in x]


def _mean(lots, condition):
    return ([_rows(lambda: _cancelling(lots, condition))], lambda x: torch.mean(x, -1),
            lambda x: [mpmath.fsum(row) / LENGTH for row in x])


def _dot(a, b):
    return mpmath.fsum(x * y for x, y in zip(a, b))


def _product(call, weights_first=False):
    def family(lots, condition):
        weight = _row(lots)
        rows = _rows(lambda: _cancelling(lots, condition, weight))
        inputs = [[weight], rows] if weights_first else [rows, [weight]]
        return inputs, call, (lambda w, x: [_dot(row, w[0]) for row in x]) if weights_first else (
            lambda x, w: [_dot(row, w[0]) for row in x])
    return family


def _batches(lots, condition):
    right = _rows(lambda: _row(lots))
    left = [_cancelling(lots, condition, row) for row in right]
    return ([left, right], lambda a, b: torch.bmm(a[:, None, :], b[:, :, None]),
            lambda a, b: [_dot(x, y) for x, y in zip(a, b)])


def _difference(lots, condition):
    left = _row(lots)
    right = [x * (1 + real(lots, 0.5, 1) / condition) for x in left]
    return [left, right], lambda a, b: torch.sub(a, b), lambda a, b: [x - y for x, y in zip(a, b)]


def _pointwise(call, exact, at):
    """`at(condition, u)`: where the function is so conditioned; u is a real number in (0.5, 1)."""
    def family(lots, condition):
        return ([[at(condition, real(lots, 0.5, 1)) for _ in range(LENGTH)]], call, lambda x: [exact(value) for value in x])
    return family


def _variance(lots, condition):
    return ([_rows(lambda: [condition + value for value in _row(lots)])], lambda x: torch.var(x, -1), lambda x: [
        mpmath.fsum((value - mpmath.fsum(row) / LENGTH) ** 2 for value in row) / (LENGTH - 1) for row in x])


def _normalised(row):
    mean = mpmath.fsum(row) / LENGTH
    variance = mpmath.fsum((value - mean) ** 2 for value in row) / LENGTH
    return [(value - mean) / mpmath.sqrt(variance + mpf(1e-5)) for value in row]


def _layer_norm(lots, condition):
    return ([_rows(lambda: [condition + value for value in _row(lots)])], lambda x: F.layer_norm(x, (LENGTH,)),
            lambda x: [value for row in x for value in _normalised(row)])


def _softmax_row(row):
    powers = [mpmath.exp(value) for value in row]
    total = mpmath.fsum(powers)
    return [power / total for power in powers]


def _softmax(lots, condition):
    scale = min(condition, 1000)
    return ([_rows(lambda: [scale * value for value in _row(lots)])], lambda x: F.softmax(x, -1),
            lambda x: [value for row in x for value in _softmax_row(row)])


def _logsumexp(lots, condition):
    """Near zero where the exponentials sum up to about 1."""
    def row():
        values = [real(lots) - 4 for _ in range(LENGTH - 1)]
        values.append(mpmath.log(1 + 1 / mpf(condition) - mpmath.fsum(mpmath.exp(value) for value in values) / 64))
        values = [value - (mpmath.log(64) if i < LENGTH - 1 else 0) for i, value in enumerate(values)]
        return values
    return ([_rows(row)], lambda x: torch.logsumexp(x, -1),
            lambda x: [mpmath.log(mpmath.fsum(mpmath.exp(value) for value in row)) for row in x])


def _convolution(lots, condition):
    kernel = _row(lots)
    rows = _rows(lambda: _cancelling(lots, condition, kernel))
    return ([rows, [kernel]], lambda x, w: F.conv1d(x[:, :, None], w[:, :, None]), lambda x, w: [_dot(row, w[0]) for row in x])


# Functions are looked up when they are called: they are replaced while calls are recorded.
FAMILIES = {
    "sum": _sum,
    "mean": _mean,
    "linear": _product(lambda x, w: F.linear(x, w)),
    "matmul": _product(lambda x, w: torch.matmul(x, w[0])),
    "bmm": _batches,
    "conv1d": _convolution,
    "sub": _difference,
    "var": _variance,
    "layer_norm": _layer_norm,
    "softmax": _softmax,
    "logsumexp": _logsumexp,
    "log": _pointwise(lambda x: torch.log(x), mpmath.log, lambda c, u: 1 + u / c),
    "exp": _pointwise(lambda x: torch.exp(x), mpmath.exp, lambda c, u: u * min(c, 80)),
    "sin": _pointwise(lambda x: torch.sin(x), mpmath.sin, lambda c, u: c * u * 4),
    "cos": _pointwise(lambda x: torch.cos(x), mpmath.cos, lambda c, u: mpmath.pi / 2 - u / c),
    "tan": _pointwise(lambda x: torch.tan(x), mpmath.tan, lambda c, u: mpmath.pi / 2 - u / c),
    "acos": _pointwise(lambda x: torch.acos(x), mpmath.acos, lambda c, u: 1 - u / c),
    "pow": _pointwise(lambda x: torch.pow(x, 30.0), lambda x: x ** 30, lambda c, u: 1 + u * min(c, 3)),
    "sigmoid": _pointwise(lambda x: torch.sigmoid(x), lambda x: 1 / (1 + mpmath.exp(-x)), lambda c, u: -u * min(c, 80)),
    "tanh": _pointwise(lambda x: torch.tanh(x), mpmath.tanh, lambda c, u: u / c),
    "sqrt": _pointwise(lambda x: torch.sqrt(x), mpmath.sqrt, lambda c, u: u * c),
}
# Half as many digits leave room for half as large conditions.
CONDITIONS = {torch.float32: (1, 4, 20, 300, 3000, 30000, 200000),
              torch.float64: (10, 10 ** 5, 10 ** 10)}


def cases():
    """(name, inputs, call of PyTorch, exact call) of all, 210."""
    for dtype, conditions in CONDITIONS.items():
        for condition in conditions:
            for family, make in FAMILIES.items():
                lots = random.Random("%s %s %d" % (family, dtype, condition))
                yield "%s %s %g" % (family, str(dtype)[6:], condition), dtype, *make(lots, mpf(condition))


def _tensor(values, dtype):
    if isinstance(values[0], list):
        return torch.stack([_tensor(row, dtype) for row in values])
    # Rounded once, from 50 digits.
    if dtype is torch.float64:
        return torch.tensor([float(value) for value in values], dtype=dtype)
    with mpmath.workprec(24):
        rounded = [+value for value in values]
    return torch.tensor([float(value) for value in rounded], dtype=dtype)


def _drawn(lots, tensor):
    """Real numbers that round to those of a tensor, as nested lists."""
    if tensor.dim() > 1:
        return [_drawn(lots, row) for row in tensor]
    unit = mpf(torch.finfo(tensor.dtype).eps)
    return [mpf(x) + unit * mpf(2) ** (math.frexp(x)[1] - 1) * real(lots, -0.5, 0.5) for x in tensor.tolist()]


def _right_digits(result, exacts):
    computed = [mpf(value) for value in result.flatten().tolist()]
    error = mpmath.fsum((a - b) ** 2 for exact in exacts for a, b in zip(computed, exact))
    size = mpmath.fsum(b ** 2 for exact in exacts for b in exact)
    most = -math.log10(torch.finfo(result.dtype).eps / 2)
    if error == 0 or size == 0:
        return most
    return min(max(float(-mpmath.log10(mpmath.sqrt(error / size))), 0.0), most)


def measured(repeats, wanted=lambda name: True):
    """[(name, recorded digits, right digits)]"""
    from msprobe.pytorch import PrecisionDebugger
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"task": "statistics", "dump_path": os.path.join(folder, "dump"), "rank": [], "step": [], "level": "L1",
                   "repeat": repeats, "extra_info": False}, file)
    debugger = PrecisionDebugger(config_path=os.path.join(folder, "config.json"))
    known = []
    for number, (name, dtype, inputs, call, exact) in enumerate(case for case in cases() if wanted(case[0])):
        tensors = [_tensor(values, dtype) for values in inputs]
        debugger.start()
        result = call(*tensors)
        debugger.stop()
        debugger.step()
        with open(os.path.join(folder, "dump", "step%d" % number, "rank", "dump.json")) as file:
            entries = json.load(file)["data"]
        # The last one: indexing is a call, too.
        floors = [entry["noise_floor"]["output"]["0"]["digits"] for entry in entries.values() if "noise_floor" in entry]
        lots = random.Random(name)
        exacts = [exact(*(_drawn(lots, tensor) for tensor in tensors)) for _ in range(DRAWS)]
        known.append((name, floors[-1], _right_digits(result, exacts)))
    return known


def judge(repeats, lists_all):
    apart = [(abs(recorded - right), name, recorded, right) for name, recorded, right in measured(repeats)]
    apart.sort(reverse=True)
    for difference, name, recorded, right in apart if lists_all else apart[:10]:
        print("%-28s recorded %5.2f  right %5.2f" % (name, recorded, right))
    within = sum(difference <= 1 for difference, *_ in apart)
    print("%d of %d cases within one digit; mean difference %.2f" % (
        within, len(apart), sum(recorded - right for _, _, recorded, right in apart) / len(apart)))


if __name__ == "__main__":
    judge(int(sys.argv[1]) if len(sys.argv) > 1 else 5, True)
