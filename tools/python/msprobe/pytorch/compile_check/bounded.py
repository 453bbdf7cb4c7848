"""A value in float64 and how far a compiled kernel may be from it.

Every rule takes values with bounds and gives a value with a bound. The model of rounding is the standard one: an operation
in a dtype with unit roundoff u gives fl(a op b) = (a op b)(1 + d), |d| <= u (N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., SIAM 2002, section 2.2). What goes in with an error e comes out with |f'| e, or for monotone functions
exactly between the values at both ends of its interval. A sum of n terms adds gamma(n) times the sum of magnitudes, where
gamma grows like the root of n: rounding errors of many terms are independent (N. J. Higham and T. Mary, SIAM J. Sci. Comput.
41, 2019), and never exceeds the n u of the worst order.

A generated kernel keeps float16 and bfloat16 values in float32 registers inside of a chain, or rounds them at each node: u of the
node's dtype bounds both.
"""
import contextlib
import math
import sys

import torch

UNIT = {torch.float64: 2.0 ** -53, torch.float32: 2.0 ** -24, torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11}
# Below it a kernel may flush to zero.
TINY = {torch.float64: 2.0 ** -1022, torch.float32: 2.0 ** -126, torch.bfloat16: 2.0 ** -126, torch.float16: 2.0 ** -24}
# Errors of vectorised functions (exp, log, tanh, erf and the like) in units in the last place: vector libraries state 1 to 4, and
# half a unit is the rounding of the result.
FUNCTION_UNITS = 8
# A compiler may contract, reorder and take approximate forms of what the graph says.
SLACK = 2.0
_LEAST = 1e-300  # of a bound; no difference of two float64 values that are in use is below it
_CLOSER = 1e150  # ratios from here on come of a bound that is 0, or of infinities
_SAMPLE = 256  # elements
BLOCK = 1 << 15  # elements that one thread works on while they are in its cache
_FEW = 16  # terms; up to so many the worst order is the bound


class NoRule(Exception):
    """Nothing is known of an operation; its text is the reason."""


def unit(dtype):
    return UNIT.get(dtype, 0.0)


def gamma(terms, dtype):
    """How much of the sum of magnitudes a sum of so many terms may be off."""
    terms = max(int(terms), 1)
    return unit(dtype) * (terms if terms <= _FEW else max(_FEW, 4 * math.sqrt(terms)))


class Bounded:
    """`value`: float64 for floating-point dtypes, as it is otherwise. `error`: None where the value is exact, else float64 of the
    same shape; for integers and booleans 0, or infinite where the kernel may decide otherwise. `dtype`: that of the program."""

    __slots__ = ("value", "error", "dtype")

    def __init__(self, value, error, dtype):
        self.value = value
        self.error = error
        self.dtype = dtype

    @classmethod
    def exact(cls, tensor):
        floating = tensor.dtype.is_floating_point
        return cls(tensor.double() if floating else tensor, None, tensor.dtype)

    def mapped(self, function):
        """By a function that only moves elements."""
        return Bounded(function(self.value), None if self.error is None else function(self.error), self.dtype)

    @property
    def spread(self):
        """The error as a tensor that broadcasts."""
        return 0.0 if self.error is None else self.error

    def floating(self):
        return self.dtype.is_floating_point


def block_of(device):
    """So many elements are worked on at once: what is not in a cache is read from memory again by every operation on it."""
    return BLOCK * torch.get_num_threads() if device.type == "cpu" else sys.maxsize


def value_of(argument):
    return argument.value if isinstance(argument, Bounded) else argument


def error_of(argument):
    return argument.spread if isinstance(argument, Bounded) else 0.0


def largest(*errors):
    """The larger error, element by element; numbers and tensors."""
    result = 0.0
    for error in errors:
        if isinstance(error, torch.Tensor) and isinstance(result, torch.Tensor):
            result = torch.maximum(*torch.broadcast_tensors(result, error))
        elif isinstance(error, torch.Tensor):
            result = error.clamp(min=result)
        elif isinstance(result, torch.Tensor):
            result = result.clamp(min=error)
        else:
            result = max(result, error)
    return result


class Casts:
    """Exact values of tensors in float64, each memory cast once: views of one tensor share theirs. For as long as nothing writes there."""

    def __init__(self):
        self._wide = {}

    def exact(self, tensor):
        if not tensor.dtype.is_floating_point or not tensor.numel():
            return Bounded.exact(tensor)
        shape, stride = tensor.shape, tensor.stride()
        span = sum((size - 1) * step for size, step in zip(shape, stride)) + 1
        if span > tensor.numel():
            return Bounded.exact(tensor)
        key = tensor.data_ptr(), span, tensor.dtype
        if key not in self._wide:
            # With the tensor itself, so that its memory is not given to another one.
            self._wide[key] = torch.as_strided(tensor, (span,), (1,)).to(torch.float64, copy=True), tensor
        return Bounded(torch.as_strided(self._wide[key][0], shape, stride, 0), None, tensor.dtype)


_exact_is_looked_for = [True]


@contextlib.contextmanager
def rounded_everywhere():
    """Results count as rounded here, also where every element of a block happens to be a value of the dtype."""
    _exact_is_looked_for[0] = False
    try:
        yield
    finally:
        _exact_is_looked_for[0] = True


def rounded(value, error, dtype, units=1.0):
    """What comes out of one operation: `error` came in, and the result is rounded."""
    if not dtype.is_floating_point:
        return Bounded(value, None, dtype)
    step = unit(dtype)
    if not isinstance(error, torch.Tensor) and not error and units <= 2 and dtype in UNIT and _exact_is_looked_for[0] and _is_held(value, dtype):
        return Bounded(value, None, dtype)  # a sum, product or quotient that the dtype can hold is not rounded
    total = value.abs()
    if isinstance(error, torch.Tensor) and error.shape == total.shape:
        total = torch.add(error, total, alpha=units * step, out=total)
    else:
        total = total.mul_(units * step).add_(error)
    total += TINY[dtype] if dtype in TINY else 0.0
    if _is_finite(total):
        return Bounded(value, total, dtype)
    # Infinities and NaN are exact where what went in is sure.
    sure = ~torch.isfinite(value)
    if isinstance(error, torch.Tensor):
        sure = sure & torch.isfinite(error)
    return Bounded(value, torch.where(sure, 0.0, torch.nan_to_num(total, nan=math.inf, posinf=math.inf)), dtype)


def _is_held(value, dtype):
    """Whether every element is a value of the dtype; of most tensors the first elements tell that it is not so."""
    first = value.reshape(-1)[:_SAMPLE] if value.is_contiguous() else value
    return torch.equal(first.to(dtype).double(), first) and torch.equal(value.to(dtype).double(), value)


class Distance:
    """How far a kernel's result is from a bounded value. `ratio`: the worst error over its bound; `error` and `bound` are of that
    element. `share`: how many elements are within. `loose`: the bounds are no smaller than the values."""

    __slots__ = ("ratio", "error", "bound", "share", "loose", "index")

    def __init__(self, ratio, error, bound, share, loose, index):
        self.ratio = ratio
        self.error = error
        self.bound = bound
        self.share = share
        self.loose = loose
        self.index = index


WITHIN = Distance(0.0, 0.0, 0.0, 1.0, False, 0)
BEYOND = Distance(math.inf, math.inf, 0.0, 0.0, False, 0)


def _is_finite(tensor):
    """Whether all elements surely are: neither infinities nor NaN leave a sum."""
    return math.isfinite(float(tensor.sum()))


def is_surely_beyond(actual, expected):
    """Whether some of a few elements is beyond its bound: tells most nodes from what a kernel left without looking at all of it."""
    count = actual.numel()
    if count <= 2 * _SAMPLE or not expected.floating():
        return False
    places = torch.arange(_SAMPLE) * (count // _SAMPLE) + torch.arange(_SAMPLE) % (count // _SAMPLE)
    value = expected.value.reshape(-1)[places]
    error = None if expected.error is None else expected.error.broadcast_to(expected.value.shape).reshape(-1)[places]
    return distance(actual.reshape(-1)[places], Bounded(value, error, expected.dtype)).ratio > 1


def distance(actual, expected, stop=False):
    """`actual`: the kernel's tensor, of the shape of expected.value. `stop`: where it is beyond, BEYOND, as soon as that is seen."""
    if actual.numel() == 0:
        return WITHIN
    value = expected.value
    if not expected.floating():
        if expected.error is None and torch.equal(actual, value):
            return WITHIN
        off = torch.where(actual != value, (actual.double() - value.double()).abs().clamp(min=1.0), 0.0)
        bound = torch.zeros_like(off) if expected.error is None else expected.error.broadcast_to(off.shape)
        return _worst(off, bound, bool((bound > 0).all()))
    found = _in_blocks(actual, value, expected.error, stop)
    return _of_all(actual, expected) if found is None else found


def _in_blocks(actual, value, error, stop):
    """The distance, block by block: each is in the processor's cache while it is worked on. None where infinities or NaN need a closer look."""
    actual, value = actual.reshape(-1), value.reshape(-1)
    error = error.broadcast_to(actual.shape).reshape(-1) if error is not None and error.numel() == 1 else None if error is None else error.reshape(-1)
    if error is not None and error.numel() != value.numel():
        return None
    count = value.numel()
    size = min(block_of(value.device), count)
    off, bound = torch.empty(size, dtype=torch.float64, device=value.device), torch.empty(size, dtype=torch.float64, device=value.device)
    worst, place, beyond, square, bounds = -1.0, 0, 0, 0.0, 0.0
    for begin in range(0, count, size):
        values = value[begin:begin + size]
        differences = off[:values.numel()].copy_(actual[begin:begin + size]).sub_(values).abs_()
        if error is None:
            largest_here = float(differences.max()) / _LEAST
            if stop and 0 < largest_here < math.inf:
                return BEYOND
        else:
            errors = error[begin:begin + size]
            largest_here = float(differences.div_(torch.add(errors, _LEAST, out=bound[:errors.numel()])).max()) / SLACK
        if not largest_here < _CLOSER:
            return None
        if largest_here > 1:
            if stop:
                return BEYOND
            beyond += int((differences > (SLACK if error is not None else 0.0)).sum())
        if largest_here > worst:
            worst, place = largest_here, begin + int(differences.argmax())
        square += float(torch.dot(values, values))
        if error is not None:
            bounds += float(torch.dot(errors, errors))
    loose = worst <= 1 and SLACK * math.sqrt(bounds) > 0.25 * math.sqrt(square) > 0
    return Distance(worst, abs(float(actual[place]) - float(value[place])), SLACK * float(error[place]) if error is not None else 0.0,
                    1.0 - beyond / count, loose, place)


def _of_all(actual, expected):
    value = expected.value
    actual = actual.double()
    off = (actual - value).abs_()
    bound = torch.zeros_like(off) if expected.error is None else expected.error.broadcast_to(off.shape) * SLACK
    finite = None
    if not _is_finite(off):
        finite = torch.isfinite(value) & torch.isfinite(actual)
        limit = torch.finfo(expected.dtype).max
        # Both beyond the range with one sign, or both NaN.
        alike = (torch.isnan(value) & torch.isnan(actual)) | ((value.abs() + bound > limit) & (actual.abs() >= limit)
                                                              & (torch.sign(value) == torch.sign(actual)))
        alike |= torch.isinf(bound)
        off = torch.where(finite, off, torch.where(alike, 0.0, math.inf))
    far = _worst(off, bound, False)
    if far.ratio <= 1:
        measured = value if finite is None else value[finite]
        far.loose = measured.numel() > 0 and _is_loose(measured, bound if finite is None else bound[finite])
    return far


def _is_loose(value, bound):
    """Whether a wrong result would pass: over the tensor, bounds reach a quarter of the values."""
    scale = torch.linalg.vector_norm(value)
    return bool(torch.linalg.vector_norm(bound) > 0.25 * scale) and bool(scale > 0)


def _worst(off, bound, loose):
    ratio = (off / (bound + _LEAST)).reshape(-1)
    index = int(torch.argmax(ratio))
    if not float(ratio[index]) < 1 / _LEAST ** 0.5:  # no bound, or infinite by an infinite one
        ratio = off.reshape(-1) / bound.reshape(-1)
        ratio = ratio.nan_to_num_(nan=0.0, posinf=math.inf)
        index = int(torch.argmax(ratio))
    inside = 1.0 if float(ratio[index]) <= 1 else float((ratio <= 1).double().mean())
    return Distance(float(ratio[index]), float(off.reshape(-1)[index]), float(bound.reshape(-1)[index]), inside, loose, index)
