"""What operators of a compiled graph compute, in float64 and with bounds.

`apply(target, args, kwargs, dtype)` is the one door: it finds the rule of an operator by its name without the overload ("mul",
"var_mean") in the tables at the end of this file. What no table has is computed by the framework itself in float64, and how far
it is from the framework's own result in the dtype of the program tells how much noise is usual; such a bound is measured, not derived.
"""
import functools
import math
import operator

import torch

from msprobe.pytorch.compile_check.bounded import (BLOCK, FUNCTION_UNITS, TINY, Bounded, NoRule, block_of, error_of, gamma, largest, rounded,
                                                    rounded_everywhere, unit, value_of)

# How often the error that the framework itself makes may go into that of a kernel, where no bound is derived.
MEASURED_TIMES = 32
RANDOM_NUMBERS = "random numbers"


@functools.lru_cache(maxsize=None)
def name_of(target):
    """"mul" of torch.ops.aten.mul.Tensor."""
    packet = getattr(target, "_overloadpacket", None)
    name = getattr(packet if packet is not None else target, "__name__", str(target))
    return name.rsplit(".", 1)[-1].rsplit("::", 1)[-1]


def functional(target):
    """The form of an operator that leaves its arguments as they are: aten.mm.default for aten.mm.out, aten.index_put.default for
    aten.index_put_.default. The operator itself where there is none."""
    if not isinstance(target, torch._ops.OpOverload):
        return target
    packet, overload = target._overloadpacket, target._overloadname
    name = name_of(target)
    if name.endswith("_") and target.namespace == "aten" and hasattr(torch.ops.aten, name[:-1]):
        return getattr(getattr(torch.ops.aten, name[:-1]), overload, target)
    if overload == "out":
        return getattr(packet, "default", target)
    return getattr(packet, overload[:-len("_out")], target) if overload.endswith("_out") else target


def mapped(arguments, function):
    """`arguments` with function(x) for every Bounded in it."""
    if isinstance(arguments, Bounded):
        return function(arguments)
    if isinstance(arguments, (list, tuple)):
        return type(arguments)(mapped(item, function) for item in arguments)
    if isinstance(arguments, dict):
        return {key: mapped(item, function) for key, item in arguments.items()}
    return arguments


def bounded_in(arguments):
    found = []
    mapped(arguments, lambda item: found.append(item) or item)
    return found


def _double(dtype):
    return torch.float64 if dtype is not None and dtype.is_floating_point else dtype


def _values(arguments):
    return mapped(arguments, lambda item: item.value)


# ---- movements: values and errors go the same way ----

def _filled(item):
    return item.error if item.error is not None else torch.zeros(item.value.shape, dtype=torch.float64)


def _move(target, args, kwargs, dtype):
    kwargs = {key: item for key, item in kwargs.items() if key not in ("dtype", "layout", "device", "pin_memory", "memory_format")}
    if name_of(target) in ("view", "_unsafe_view"):
        target = torch.ops.aten.reshape.default  # values here lie in memory as they come
    value = target(*_values(args), **_values(kwargs))
    error = None
    inputs = bounded_in((args, kwargs))
    if any(item.error is not None for item in inputs):
        # Indices move nothing by their own errors, but where one may be another, anything may come out.
        moving = [item for item in inputs if item.floating() == dtype.is_floating_point]
        if any(item.error is not None for item in inputs if item not in moving):
            error = _everywhere(value)
        else:
            error = target(*mapped(args, lambda item: _filled(item) if item in moving else item.value),
                           **mapped(kwargs, lambda item: _filled(item) if item in moving else item.value))
    if isinstance(value, (list, tuple)):
        errors = error if error is not None else [None] * len(value)
        return [Bounded(part, None if spread is None else spread.abs(), dtype) for part, spread in zip(value, errors)]
    return Bounded(value, None if error is None else error.abs(), dtype)


def _everywhere(value):
    if isinstance(value, (list, tuple)):
        return [_everywhere(part) for part in value]
    return torch.full(value.shape, math.inf, dtype=torch.float64)


def _pad(target, args, kwargs, dtype):
    item = args[0]
    value = target(item.value, *args[1:], **kwargs)
    error = None if item.error is None else torch.ops.aten.constant_pad_nd(item.error, args[1], 0.0)
    return Bounded(value, error, dtype)


def _as_strided(target, args, kwargs, dtype):
    raise NoRule("as_strided reads through the memory of a tensor")


def _cast(target, args, kwargs, dtype):
    item = args[0]
    if not isinstance(item, Bounded):
        return _plain(target, args, kwargs, dtype)
    if not item.floating() or not dtype.is_floating_point:
        if dtype.is_floating_point:  # from integers and booleans
            value = item.value.double()
            error = item.error
            return rounded(value, 0.0 if error is None else error, dtype) if dtype != torch.float64 else Bounded(value, error, dtype)
        if not item.floating():
            return Bounded(item.value.to(dtype), item.error, dtype)
        if dtype == torch.bool:
            return _compare_with_zero(item, dtype)
        value = item.value.to(dtype)
        error = None
        if item.error is not None:  # to whole numbers, cut: the other side of a whole number may be meant
            near = torch.trunc(item.value - item.error) != torch.trunc(item.value + item.error)
            error = torch.where(near, math.inf, 0.0) if bool(near.any()) else None
        return Bounded(value, error, dtype)
    narrower = unit(dtype) > unit(item.dtype)
    result = item if not narrower else rounded(item.value, item.spread, dtype)
    return Bounded(_limited(result.value, dtype), result.error, dtype)


def _limited(value, dtype):
    """Beyond the range of the dtype is infinite."""
    limit = torch.finfo(dtype).max
    return torch.where(value.abs() > limit * (1 + unit(dtype)), torch.sign(value) * math.inf, value) if dtype != torch.float64 else value


def _compare_with_zero(item, dtype):
    value = item.value != 0
    unsure = None if item.error is None else torch.where(item.value.abs() <= item.error, math.inf, 0.0)
    return Bounded(value, unsure, dtype)


# ---- arithmetic ----

def _constant(item, dtype):
    """The error of a number that a kernel holds in its dtype."""
    return abs(item) * unit(dtype) if isinstance(item, float) and not math.isinf(item) and item == item and \
        float(torch.tensor(item, dtype=dtype)) != item else 0.0


def _error(item, dtype):
    return item.spread if isinstance(item, Bounded) else _constant(item, dtype) if dtype.is_floating_point else 0.0


def _integers(target, args, kwargs, dtype):
    """Whole numbers and booleans are exact, or may be anything where one of the operands may."""
    value = target(*_values(args), **_values(kwargs))
    unsure = largest(*(item.spread for item in bounded_in((args, kwargs))))
    error = unsure.broadcast_to(value.shape) if isinstance(unsure, torch.Tensor) else None
    return Bounded(value, error, dtype)


def _add(target, args, kwargs, dtype):
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    a, b, alpha = args[0], args[1], kwargs.get("alpha", 1)
    value = target(*_values(args), **_values(kwargs))
    error = _error(a, dtype) + abs(value_of(alpha)) * _error(b, dtype)
    if alpha != 1:  # the factor is rounded, and so is the product
        error = error + 2 * unit(dtype) * abs(value_of(alpha)) * abs_of(b)
    return rounded(value, error, dtype)


def _mul(target, args, kwargs, dtype):
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    a, b = args[:2]
    value = target(*_values(args), **_values(kwargs))
    ea, eb = _error(a, dtype), _error(b, dtype)
    error = 0.0
    if _is_some(ea):
        error = (abs_of(b) + eb) * ea
    if _is_some(eb):
        error = abs_of(a) * eb + error
    return rounded(value, error, dtype)


def abs_of(item):
    value = value_of(item)
    if not isinstance(value, torch.Tensor):
        return abs(value)
    return value.abs() if value.dtype != torch.bool else value


def _is_some(error):
    return isinstance(error, torch.Tensor) or error != 0.0


def _times(a, b):
    if not isinstance(b, torch.Tensor) and b == 0.0 or not isinstance(a, torch.Tensor) and a == 0.0:
        return 0.0
    return a * b


def _div(target, args, kwargs, dtype):
    mode = kwargs.get("rounding_mode")
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    a, b = args[:2]
    ea, eb = _error(a, dtype), _error(b, dtype)
    exact = torch.ops.aten.div(*_values([a if isinstance(a, Bounded) else torch.tensor(float(a), dtype=torch.float64), b]))
    error = ea + _times(exact.abs(), eb)
    if isinstance(error, torch.Tensor) or error:
        error = error / torch.clamp(torch.as_tensor(abs_of(b), dtype=torch.float64) - eb, min=0.0)
    result = rounded(exact, error, dtype, 2.0)
    return result if mode is None else _stepped(result, torch.floor if mode == "floor" else torch.trunc, dtype)


def _stepped(item, function, dtype):
    """floor, ceil, round, trunc, sign: whole steps, and between two of them either one."""
    value = function(item.value)
    if item.error is None:
        return Bounded(value, None, dtype)
    error = largest((function(item.value + item.error) - value).abs(), (function(item.value - item.error) - value).abs())
    return Bounded(value, torch.nan_to_num(error, nan=math.inf), dtype)


def _steps(function):
    return lambda target, args, kwargs, dtype: _stepped(args[0], function, dtype) if args[0].floating() else \
        _integers(target, args, kwargs, dtype)


def _exact_unary(target, args, kwargs, dtype):
    """neg, abs: no rounding, errors stay as they are."""
    return Bounded(target(args[0].value, *args[1:], **kwargs), args[0].error, dtype)


def _bound_ends(function, item, value):
    """The largest distance of function() over the interval of a value, for monotone functions."""
    if item.error is None:
        return 0.0
    above, below = function(item.value + item.error), function(item.value - item.error)
    return torch.nan_to_num(largest((above - value).abs(), (below - value).abs()), nan=math.inf, posinf=math.inf)


def _monotone(units=FUNCTION_UNITS):
    def rule(target, args, kwargs, dtype):
        item = args[0] if args[0].floating() else Bounded(args[0].value.double(), None, dtype)

        def function(value):
            return target(value, *args[1:], **kwargs)

        value = function(item.value)
        return rounded(value, _bound_ends(function, item, value), dtype, units)
    return rule


def _log(target, args, kwargs, dtype):
    item = args[0] if args[0].floating() else Bounded(args[0].value.double(), None, dtype)
    value = target(item.value)
    error = 0.0
    if item.error is not None:
        shifted = 1.0 if name_of(target) == "log1p" else 0.0
        below = torch.clamp(item.value - item.error, min=-shifted)
        error = torch.nan_to_num(largest((target(item.value + item.error) - value).abs(), (value - target(below)).abs()),
                                 nan=math.inf, posinf=math.inf)
    return rounded(value, error, dtype, FUNCTION_UNITS)


def _erf(target, args, kwargs, dtype):
    """Vectorised forms are sure of digits behind the point, not of relative ones: 1.5e-7 (M. Abramowitz and I. Stegun, Handbook of
    Mathematical Functions, 7.1.26)."""
    item = args[0]
    value = target(item.value)
    return rounded(value, _bound_ends(target, item, value) + 8 * unit(dtype), dtype, 4)


def _wave(target, args, kwargs, dtype):
    """sin and cos: what goes in with an error e comes out with at most e; arguments are reduced by a rounded multiple of pi."""
    item = args[0]
    value = target(item.value)
    return Bounded(value, item.spread + unit(dtype) * (FUNCTION_UNITS + item.value.abs()), dtype)


def _smooth(slope):
    """Functions whose slope is nowhere above `slope`."""
    def rule(target, args, kwargs, dtype):
        item = args[0]
        value = target(item.value, *args[1:], **kwargs)
        return rounded(value, slope * item.spread + FUNCTION_UNITS * unit(dtype) * item.value.abs(), dtype, FUNCTION_UNITS)
    return rule


def _lgamma(target, args, kwargs, dtype):
    """log |gamma(x)|: falls to 1.46 and rises behind it, has poles at 0, -1, -2 and so on, and zeros at 1 and 2 and between the poles, around which
    libraries are sure of digits behind the point only."""
    item = args[0] if args[0].floating() else Bounded(args[0].value.double(), None, dtype)
    value = target(item.value)
    error = FUNCTION_UNITS * unit(dtype) * (1 + item.value.abs().clamp(max=64.0))
    if item.error is not None:
        above, below = item.value + item.error, item.value - item.error
        moved = 2 * largest((target(above) - value).abs(), (target(below) - value).abs()) + item.error * torch.special.digamma(item.value).abs()
        pole = (below <= 0) & (torch.floor(above.clamp(max=0.0)) != torch.floor(below))
        error = error + torch.where(pole, math.inf, torch.nan_to_num(moved, nan=math.inf, posinf=math.inf))
    return rounded(value, error, dtype, FUNCTION_UNITS)


def _reciprocal(target, args, kwargs, dtype):
    item = args[0]
    value = target(item.value)
    error = 0.0
    if item.error is not None:
        low = torch.clamp(item.value.abs() - item.error, min=0.0)
        error = torch.nan_to_num((target(low) - target(item.value.abs())).abs(), nan=math.inf, posinf=math.inf)
    return rounded(value, error, dtype, 4.0)


def _pow(target, args, kwargs, dtype):
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    base, exponent = args[:2]
    value = target(*_values(args))
    error = 0.0
    for sign in (-1.0, 1.0):
        for other in (-1.0, 1.0):
            if not any(isinstance(error_of(item), torch.Tensor) for item in (base, exponent)):
                continue
            moved = torch.pow(value_of(base) + sign * error_of(base), value_of(exponent) + other * error_of(exponent))
            error = largest(error, torch.nan_to_num((moved - value).abs(), nan=math.inf, posinf=math.inf))
    if isinstance(error_of(base), torch.Tensor):  # a turning point at zero
        error = torch.where(value_of(base).abs() <= base.error, largest(error, value.abs()), error)
    units = FUNCTION_UNITS
    if isinstance(exponent, (int, float)):
        units = 1.0 if exponent == 2 else 2.0 + abs(exponent) if float(exponent).is_integer() and abs(exponent) < 64 else units
    # exp(b log a) loses digits with the size of its argument.
    logarithm = 0.0 if units != FUNCTION_UNITS else torch.nan_to_num(value.abs().log().abs(), posinf=0.0, neginf=0.0, nan=0.0)
    if isinstance(logarithm, torch.Tensor):
        error = error + logarithm * value.abs() * unit(dtype) * 2
    return rounded(value, error, dtype, units)


def _fma(target, args, kwargs, dtype):
    product = _mul(torch.ops.aten.mul, args[:2], {}, dtype)
    return _add(torch.ops.aten.add, [product, args[2]], {}, dtype)


def _addcmul(target, args, kwargs, dtype):
    product = _mul(torch.ops.aten.mul, args[1:3], {}, dtype)
    product = _mul(torch.ops.aten.mul, [product, kwargs.get("value", 1)], {}, dtype)
    return _add(torch.ops.aten.add, [args[0], product], {}, dtype)


def _addcdiv(target, args, kwargs, dtype):
    quotient = _div(torch.ops.aten.div, args[1:3], {}, dtype)
    quotient = _mul(torch.ops.aten.mul, [quotient, kwargs.get("value", 1)], {}, dtype)
    return _add(torch.ops.aten.add, [args[0], quotient], {}, dtype)


def _lerp(target, args, kwargs, dtype):
    start, end, weight = args[:3]
    way = _add(torch.ops.aten.sub, [end, start], {}, dtype)
    return _add(torch.ops.aten.add, [start, _mul(torch.ops.aten.mul, [way, weight], {}, dtype)], {}, dtype)


# ---- choices ----

def _choice(target, args, kwargs, dtype):
    """minimum, maximum, clamp, relu: the error of what may be chosen."""
    value = target(*_values(args), **_values(kwargs))
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    error = largest(*(_error(item, dtype) for item in list(args) + list(kwargs.values()) if isinstance(item, (Bounded, float))))
    if isinstance(error, torch.Tensor) and all(isinstance(item, (int, float)) or item is None for item in list(args[1:]) + list(kwargs.values())):
        # Between numbers: what is cut off takes its error with it.
        moved = _bound_ends(lambda tensor: target(tensor, *args[1:], **kwargs), args[0], value)
        limits = max((_constant(item, dtype) for item in list(args[1:]) + list(kwargs.values()) if isinstance(item, float)), default=0.0)
        return Bounded(value, moved + limits, dtype)
    if not isinstance(error, torch.Tensor):
        error = None if error == 0.0 else torch.full(value.shape, error, dtype=torch.float64)
    return Bounded(value, error, dtype) if error is None else Bounded(value, error.broadcast_to(value.shape).clone(), dtype)


def _where(target, args, kwargs, dtype):
    condition, one, other = args
    value = target(*_values(args))
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    errors = [item.spread if isinstance(item, Bounded) else _constant(item, dtype) for item in (one, other)]
    if all(not isinstance(error, torch.Tensor) and error == 0.0 for error in errors) and condition.error is None:
        return Bounded(value.double(), None, dtype)
    errors = [error if isinstance(error, torch.Tensor) else torch.tensor(error, dtype=torch.float64) for error in errors]
    error = torch.where(condition.value, *errors)
    if condition.error is not None:
        either = largest(*errors) + (torch.as_tensor(value_of(one)) - torch.as_tensor(value_of(other))).abs()
        error = torch.where(condition.error > 0, torch.nan_to_num(either, nan=math.inf), error)
    return Bounded(value.double(), error.broadcast_to(value.shape), dtype)


def _classes(target, args, kwargs, dtype):
    """isnan, isinf, isfinite: sure where a value is, to within its error."""
    item = args[0]
    value = target(item.value)
    unsure = None
    if item.error is not None and item.floating():
        largest_error = torch.finfo(item.dtype).max - item.value.abs()
        unsure = torch.where(torch.isfinite(item.value) & (item.error >= largest_error), math.inf, 0.0)
    return Bounded(value, unsure, dtype)


def _comparison(target, args, kwargs, dtype):
    value = target(*_values(args))
    a, b = args[:2]
    error = _error(a, a.dtype) + _error(b, a.dtype) if isinstance(a, Bounded) and a.floating() else \
        largest(*(item.spread for item in bounded_in(args)))
    if not isinstance(error, torch.Tensor):
        return Bounded(value, None, dtype)
    near = error > 0
    if a.floating():
        near = near & ((value_of(a) - value_of(b)).abs() <= error)
    return Bounded(value, torch.where(near, math.inf, 0.0).double().broadcast_to(value.shape), dtype)


# ---- reductions ----

def _dims(args, kwargs, position, tensor):
    dims = args[position] if len(args) > position else kwargs.get("dim")
    if dims is None or dims == [] or dims == ():
        return list(range(tensor.dim()))
    return [dim % max(tensor.dim(), 1) for dim in ([dims] if isinstance(dims, int) else dims)]


def _count(shape, dims):
    return math.prod(shape[dim] for dim in dims)


def _sum(target, args, kwargs, dtype):
    item = args[0]
    kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    tensor = item.value.double()
    value = target(tensor, *args[1:], **kwargs)
    terms = _count(tensor.shape, _dims(args, kwargs, 1, tensor))
    error = target(tensor.abs(), *args[1:], **kwargs) * gamma(terms, _accumulated(dtype, item.dtype))
    if item.error is not None:
        error = error + target(item.error, *args[1:], **kwargs)
    return rounded(value, error, dtype)


def _accumulated(dtype, given):
    """The dtype in which a kernel adds: 16-bit types in float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _prod(target, args, kwargs, dtype):
    item = args[0]
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    value = target(item.value, *args[1:], **kwargs)
    error = 0.0
    if item.error is not None:
        magnitude = item.value.abs()
        error = target(magnitude + item.error, *args[1:], **kwargs) - target(magnitude, *args[1:], **kwargs)
    terms = item.value.numel() if len(args) < 2 else item.value.shape[args[1]]
    return rounded(value, error, dtype, max(terms, 1))


def _extreme(target, args, kwargs, dtype):
    """amax, amin over dimensions."""
    item = args[0]
    value = target(item.value, *args[1:], **kwargs)
    if item.error is None or not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype) if not dtype.is_floating_point else Bounded(value, None, dtype)
    return Bounded(value, torch.ops.aten.amax(item.error, *args[1:2], **{key: kwargs[key] for key in kwargs if key in ("dim", "keepdim")},
                                              **({"keepdim": args[2]} if len(args) > 2 else {})), dtype)


def _moments(target, args, kwargs, dtype):
    """var, var_mean, std: by two passes or by updates one after the other. Both keep the error of the variance at gamma(n) times
    itself and the root of the condition number, 1 + mean^2/var (T. F. Chan, G. H. Golub and R. J. LeVeque, Am. Stat. 37, 1983)."""
    item = args[0]
    result = target(item.value, *args[1:], **kwargs)
    dims = _dims(args, kwargs, 1, item.value)
    name = name_of(target)
    variance = result[0] if isinstance(result, tuple) else result if name == "var" else result.square()
    keep = {"keepdim": kwargs["keepdim"]} if "keepdim" in kwargs else {}
    if len(args) > 3 and "keepdim" not in kwargs:
        keep = {"keepdim": args[3]}
    terms = _count(item.value.shape, dims)
    share = gamma(terms, _accumulated(dtype, item.dtype)) + 4 * unit(_accumulated(dtype, item.dtype))
    mean = torch.mean(item.value, dims, **keep)
    spread = torch.sqrt(variance)
    error = share * 2 * (variance + mean.abs() * spread) + (share * mean.abs()).square()
    given = 0.0
    if item.error is not None:
        given = torch.sqrt(torch.mean(item.error.square(), dims, **keep))
        error = error + 2 * spread * given * math.sqrt(terms / max(terms - 1, 1)) + given.square()
    if name.startswith("std"):
        error = error / (2 * torch.clamp(spread, min=1e-300)) + unit(dtype) * spread
    first = rounded(result[0] if isinstance(result, tuple) else result, torch.nan_to_num(error, nan=math.inf), dtype, 4)
    if not isinstance(result, tuple):
        return first
    mean_error = torch.mean(item.value.abs(), dims, **keep) * share
    if item.error is not None:
        mean_error = mean_error + torch.mean(item.error, dims, **keep)
    return (first, rounded(result[1], mean_error, dtype, 2))


def squared_deviations(tensor, dims, keepdim):
    """The sum of (x - mean)^2; what generated code keeps of a variance between two kernels."""
    dims = list(range(tensor.dim())) if not dims else dims
    return torch.var(tensor, dims, correction=0, keepdim=keepdim) * _count(tensor.shape, [dim % tensor.dim() for dim in dims])


def _deviations(target, args, kwargs, dtype):
    item, dims, keepdim = args
    dims = _dims(args, kwargs, 1, item.value)
    variance = _moments(torch.ops.aten.var.correction, [item, dims], {"correction": 0, "keepdim": keepdim}, dtype)
    return _mul(torch.ops.aten.mul, [variance, _count(item.value.shape, dims)], {}, dtype)


def _linear(*positions):
    """Operators that add up elements of one argument, at `positions`[0]: the sum of magnitudes goes the same way, and a tensor of
    ones counts the terms. Weights are not negative."""
    def rule(target, args, kwargs, dtype):
        if not dtype.is_floating_point:
            return _integers(target, args, kwargs, dtype)
        if any(item.error is not None for item in bounded_in((args, kwargs)) if not item.floating()):
            raise NoRule("where elements go is not sure")

        def of(function):
            changed = [function(item) if index in positions else value_of(_values(item)) for index, item in enumerate(args)]
            return target(*changed, **_values(kwargs))

        value = of(lambda item: item.value)
        magnitude = of(lambda item: item.value.abs())
        terms = of(lambda item: torch.ones_like(item.value)).max() if value.numel() else 1
        error = magnitude * gamma(float(terms) + 1, _accumulated(dtype, dtype))
        if any(item.error is not None for index, item in enumerate(args) if index in positions):
            error = error + of(_filled)
        return rounded(value, error, dtype, 2)
    return rule


def _index_put(target, args, kwargs, dtype):
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    if not accumulate:
        return _move(target, args, kwargs, dtype)
    return _linear(0, 2)(target, args, kwargs, dtype)


def _scatter_reduce(target, args, kwargs, dtype):
    return _linear(0, 3)(target, args, kwargs, dtype) if args[4] == "sum" else _native(target, args, kwargs, dtype)


def _masked_index_put(target, args, kwargs, dtype):
    """(tensor, mask, indices, values): adds values where the mask is set, in any order."""
    item, mask, indices, values = args
    if mask.error is not None or any(index is not None and index.error is not None for index in indices):
        raise NoRule("where elements go is not sure")
    # An index where the mask is not set may be anything; nothing is added there.
    places = [None if index is None else index.value.clamp(0, size - 1) for index, size in zip(indices, item.value.shape)]
    kept = mask.value if mask.value.dim() == values.value.dim() else \
        mask.value.reshape(mask.value.shape + (1,) * (values.value.dim() - mask.value.dim()))

    def put(into, part):
        return torch.ops.aten.index_put(into, places, torch.where(kept, part, 0.0).to(into.dtype), True)

    given = values.value
    zeros = torch.zeros_like(item.value)
    value, magnitude, count = put(item.value, given), put(zeros, given.abs()), put(zeros, torch.ones_like(given))
    error = (magnitude + item.value.abs()) * gamma(float(count.max()) + 1, _accumulated(dtype, dtype))
    if values.error is not None:
        error = error + put(zeros, values.error.broadcast_to(given.shape))
    return rounded(value, error if item.error is None else error + item.error, dtype, 2)


def _cumulative(target, args, kwargs, dtype):
    item = args[0]
    kwargs = {key: value for key, value in kwargs.items() if key != "dtype"}
    if not dtype.is_floating_point:
        return _integers(target, args, kwargs, dtype)
    tensor = item.value.double()
    value = target(tensor, *args[1:], **kwargs)
    error = target(tensor.abs(), *args[1:], **kwargs) * gamma(tensor.shape[args[1]] if tensor.dim() else 1, dtype)
    return rounded(value, error if item.error is None else error + target(item.error, *args[1:], **kwargs), dtype)


def _max_pool(target, args, kwargs, dtype):
    """Values are elements; which one is sure where values are exact."""
    item = args[0]
    result = target(item.value, *args[1:], **kwargs)
    error = None if item.error is None else target(item.error, *args[1:], **kwargs)[0]
    unsure = None if item.error is None else torch.full(result[1].shape, math.inf, dtype=torch.float64)
    return (Bounded(result[0], error, dtype), Bounded(result[1], unsure, result[1].dtype))


def _where_extreme(target, args, kwargs, dtype):
    """argmax, argmin: the index is sure where no other element is as near."""
    item = args[0]
    value = target(item.value, *args[1:], **kwargs)
    if item.error is None:
        return Bounded(value, None, dtype)
    flat = len(args) < 2 or args[1] is None
    tensor, dim = (item.value.reshape(-1), 0) if flat else (item.value, args[1])
    spread = item.error.broadcast_to(item.value.shape).reshape(tensor.shape)
    if tensor.shape[dim] < 2:
        return Bounded(value, None, dtype)
    two = torch.topk(tensor, 2, dim, largest=name_of(target) == "argmax").values
    worst = spread.amax(dim)
    near = (two.select(dim, 0) - two.select(dim, 1)).abs() <= 2 * worst
    keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    near = near.unsqueeze(dim) if keep and not flat else near
    return Bounded(value, torch.where(near, math.inf, 0.0).double().reshape(value.shape), dtype)


def _ordered(target, args, kwargs, dtype):
    """sort, topk, max and min along a dimension: values move by no more than the largest error; indices are sure where values
    differ by more."""
    item = args[0]
    result = target(item.value, *args[1:], **kwargs)
    values, indices = result[0], result[1]
    dim = kwargs.get("dim", args[2] if name_of(target) == "topk" and len(args) > 2 else args[1] if name_of(target) != "topk" and len(args) > 1
                     and isinstance(args[1], int) and not isinstance(args[1], bool) else -1)
    error = None
    worst = torch.zeros(1, dtype=torch.float64)
    if item.error is not None:
        worst = item.error.broadcast_to(item.value.shape).amax(dim, keepdim=values.dim() == item.value.dim())
        error = worst.broadcast_to(values.shape)
    # Elements as near as the errors, also behind the last one that is taken.
    unsure = torch.zeros(values.shape, dtype=torch.bool)
    everything = torch.sort(item.value, dim).values.double()
    if values.dim() == item.value.dim() and item.value.shape[dim] > 1:
        gaps = torch.diff(everything, dim=dim).abs()
        unsure |= (gaps <= 2 * (worst if isinstance(worst, torch.Tensor) else 0)).any(dim, keepdim=True)
    elif item.value.dim() and item.value.shape[dim] > 1:
        unsure |= item.error is not None
    return (Bounded(values, error if dtype.is_floating_point else None, dtype),
            Bounded(indices, torch.where(unsure, math.inf, 0.0).double().broadcast_to(indices.shape), torch.int64))


# ---- products ----

def _product_units(dtype, terms):
    step = gamma(terms, _accumulated(dtype, dtype))
    if dtype == torch.float32 and torch.get_float32_matmul_precision() == "medium":
        step += 2 * unit(torch.bfloat16)
    elif dtype == torch.float32 and torch.get_float32_matmul_precision() == "high":
        step += 2 * 2.0 ** -11
    return step


def _matrix_product(a, b, dtype):
    """The product of matrices (also of batches), its elements bounded by the norms of rows and columns (Cauchy and Schwarz)."""
    one, other = a.value, b.value
    value = torch.matmul(one, other)
    rows = torch.linalg.vector_norm(one, dim=-1, keepdim=True)
    columns = torch.linalg.vector_norm(other, dim=-2, keepdim=True)
    # Rounding adds at most a unit of the product of both norms; `least` times `least` is the smallest value of the dtype.
    least = math.sqrt(TINY[dtype])
    error = (rows * (_product_units(dtype, one.shape[-1]) + unit(dtype)) + least) * (columns + least)
    for item, norm, first in ((a, columns, True), (b, rows, False)):
        if item.error is not None:
            spread = torch.linalg.vector_norm(item.error.broadcast_to(item.value.shape), dim=-1 if first else -2, keepdim=True)
            error += spread * norm
    if bool(torch.isfinite(rows).all()) and bool(torch.isfinite(columns).all()):
        return Bounded(value, error, dtype)
    return rounded(value, error, dtype)


def _mm(target, args, kwargs, dtype):
    if not dtype.is_floating_point:
        return _integers(target, args, {}, dtype)
    a, b = args[:2]
    if name_of(target) in ("mv", "dot"):
        product = _matrix_product(a if name_of(target) == "mv" else a.mapped(lambda t: t.reshape(1, -1)),
                                  b.mapped(lambda t: t.reshape(-1, 1)), dtype)
        return product.mapped(lambda t: t.reshape(-1) if name_of(target) == "mv" else t.reshape(()))
    return _matrix_product(a, b, dtype)


def _addmm(target, args, kwargs, dtype):
    product = _matrix_product(args[1], args[2], dtype)
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    if alpha != 1:
        product = _mul(torch.ops.aten.mul, [product, alpha], {}, dtype)
    if beta == 0:
        return product
    bias = args[0] if beta == 1 else _mul(torch.ops.aten.mul, [args[0], beta], {}, dtype)
    return _add(torch.ops.aten.add, [product, bias], {}, dtype)


def _convolution(target, args, kwargs, dtype):
    item, weight, bias = args[0], args[1], args[2]
    rest = list(args[3:])
    if name_of(target) != "convolution":
        raise NoRule("no rule for %s" % name_of(target))
    value = target(item.value, weight.value, None, *rest)
    transposed = rest[3]
    terms = weight.value[0].numel() if not transposed else weight.value.shape[0] * weight.value[0, 0].numel()
    magnitude = target(item.value.abs(), weight.value.abs(), None, *rest)
    # Winograd's and FFT's forms add terms that cancel: their constants are within the factor.
    error = magnitude * _product_units(dtype, terms) * 4
    for one, other, first in ((item, weight, True), (weight, item, False)):
        if one.error is not None:
            pair = (_filled(one), other.value.abs()) if first else (other.value.abs(), _filled(one))
            error = error + target(*pair, None, *rest)
    result = rounded(value, error, dtype)
    if bias is None:
        return result
    return _add(torch.ops.aten.add, [result, bias.mapped(lambda t: t.reshape((-1,) + (1,) * (value.dim() - 2)))], {}, dtype)


def _convolution_backward(target, args, kwargs, dtype):
    grad, item, weight = args[:3]
    rest = list(args[3:])
    mask = rest[-1]
    if any(part.error is not None for part in (grad, item, weight)):
        raise NoRule("the gradient of a convolution of values that are not exact")
    value = target(grad.value, item.value, weight.value, *rest)
    magnitude = target(grad.value.abs(), item.value.abs(), weight.value.abs(), *rest)
    spatial = math.prod(grad.value.shape[2:])
    terms = (weight.value.numel() // max(weight.value.shape[1], 1), grad.value.shape[0] * spatial, grad.value.shape[0] * spatial)
    return tuple(None if not wanted else rounded(part, size * _product_units(dtype, count) * 4, dtype)
                 for part, size, count, wanted in zip(value, magnitude, terms, mask))


# ---- what has no inputs, and what is random ----

def _plain(target, args, kwargs, dtype):
    """full, arange, scalar_tensor, iota: made of numbers alone."""
    kwargs = {key: (_double(item) if key == "dtype" else torch.device("cpu") if key == "device" else item) for key, item in kwargs.items()}
    if name_of(target) == "full" and "dtype" not in kwargs and dtype.is_floating_point:
        kwargs["dtype"] = torch.float64
    value = target(*_values(args), **_values(kwargs))
    if not dtype.is_floating_point:
        return Bounded(value.to(dtype), None, dtype)
    return rounded(value.double(), 0.0, dtype)


def _like(fill):
    def rule(target, args, kwargs, dtype):
        shape = args[0].value.shape
        number = fill if fill is not None else args[1]
        return _plain(torch.ops.aten.full, [list(shape), number], {"dtype": dtype}, dtype)
    return rule


def _identity(target, args, kwargs, dtype):
    return args[0]


def _second(target, args, kwargs, dtype):
    """copy_ and copy: what is written."""
    source, shape = args[1], args[0].value.shape
    if isinstance(source, Bounded):
        return _cast(target, [source.mapped(lambda t: t.broadcast_to(shape))], {}, args[0].dtype)
    return _like(source)(target, args, kwargs, dtype)


def _getitem(target, args, kwargs, dtype):
    return args[0][args[1]]


def _softmax(target, args, kwargs, dtype):
    """_softmax and _log_softmax where they are left whole; `dtype` of float32 in and out."""
    item, dim = args[0], args[1]
    shifted = _add(torch.ops.aten.sub, [item, _extreme(torch.ops.aten.amax, [item, [dim], True], {}, dtype)], {}, dtype)
    powers = _monotone()(torch.ops.aten.exp, [shifted], {}, dtype)
    total = _sum(torch.ops.aten.sum, [powers, [dim], True], {}, dtype)
    if name_of(target) == "_softmax":
        return _div(torch.ops.aten.div, [powers, total], {}, dtype)
    return _add(torch.ops.aten.sub, [shifted, _log(torch.ops.aten.log, [total], {}, dtype)], {}, dtype)


# ---- random numbers of generated code ----
# Philox 4x32-10 (J. K. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011), one counter per element: the seed is
# the key, the element's number the counter.

_WEYL = (0x9E3779B9, 0xBB67AE85)
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_LOW = 0xFFFFFFFF


def _wide_product(a, b):
    """(high, low) words of products of 32-bit numbers that are kept in int64."""
    high = (a * (b >> 16) + ((a * (b & 0xFFFF)) >> 16)) >> 16
    return high & _LOW, (a * b) & _LOW


def _philox(seed, count):
    words = [torch.arange(count, dtype=torch.int64) & _LOW] + [torch.zeros(count, dtype=torch.int64) for _ in range(3)]
    key = [seed & _LOW, (seed >> 32) & _LOW]
    for turn in range(10):
        high, low = _wide_product(words[0], _MULTIPLIERS[0])
        other_high, other_low = _wide_product(words[2], _MULTIPLIERS[1])
        words = [other_high ^ words[1] ^ key[0], other_low, high ^ words[3] ^ key[1], low]
        key = [(key[0] + _WEYL[0]) & _LOW, (key[1] + _WEYL[1]) & _LOW]
    return words


def _lookup_seed(target, args, kwargs, dtype):
    return args[0].mapped(lambda seeds: seeds.reshape(-1)[args[1]])


def _random(target, args, kwargs, dtype):
    """Uniform numbers in [0, 1) of 31 bits. A normal one is a function of several of them: taken as it is."""
    size, seed, mode = args[0], args[1], args[2]
    offset = args[3] if len(args) > 3 else kwargs.get("offset", 0)
    if mode != "rand" or not isinstance(seed, Bounded) or offset:
        raise NoRule(RANDOM_NUMBERS)
    words = _philox(int(seed.value) & _LOW, math.prod(size))[0]
    value = ((words & 0x7FFFFFFF).double() * 4.6566127342e-10).reshape(size)
    return rounded(value, 0.0, dtype, 2)


# ---- the framework itself ----

def _native(target, args, kwargs, dtype):
    """In float64, and in the dtype of the program to see what noise is usual. `dtype` may be a list, for several results."""
    inputs = bounded_in((args, kwargs))
    if any(item.error is not None for item in inputs):
        raise NoRule("no rule for %s, whose inputs are not exact here" % name_of(target))
    if any(item.dtype.is_complex for item in inputs):
        raise NoRule("complex numbers")
    try:
        wide = target(*_values(args), **_values(kwargs))
    except Exception as error:
        raise NoRule("%s does not run in float64: %s" % (name_of(target), str(error).split("\n")[0][:80]))
    narrow = target(*mapped(args, lambda item: item.value.to(item.dtype)), **mapped(kwargs, lambda item: item.value.to(item.dtype)))

    def bounded(one, other):
        if not isinstance(one, torch.Tensor):
            return one
        if not other.dtype.is_floating_point:
            return Bounded(other, None, other.dtype)
        noise = (other.double() - one.double()).abs()
        noise = noise[torch.isfinite(noise)]
        usual = float(noise.max()) if noise.numel() else 0.0
        size = float(one.double().abs().nan_to_num_(0, 0, 0).max()) if one.numel() else 0.0
        return rounded(one.double(), torch.full(one.shape, MEASURED_TIMES * (usual + unit(other.dtype) * size), dtype=torch.float64),
                       other.dtype, 2)

    if isinstance(wide, (tuple, list)):
        return tuple(bounded(one, other) for one, other in zip(wide, narrow))
    return bounded(wide, narrow)


_MOVES = """view _unsafe_view reshape permute transpose t expand unsqueeze squeeze slice select cat stack clone alias detach split
split_with_sizes unbind flip roll repeat diagonal index_select gather index _unsafe_index embedding tril triu lift_fresh_copy
contiguous select_scatter slice_scatter unfold pixel_shuffle pixel_unshuffle upsample_nearest2d upsample_nearest1d
movedim narrow broadcast_in_dim scatter unsafe_split unsafe_chunk chunk hstack vstack reflection_pad1d reflection_pad2d
replication_pad2d view_as_real diagonal_copy permute_copy rot90 take index_copy im2col broadcast_to swapaxes as_strided_copy
inductor_force_stride_order _adjust_shape rev""".split()
_COMPARISONS = "eq ne lt le gt ge".split()
_LOGIC = """logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor any all bitwise_left_shift
bitwise_right_shift __and__ __or__ __lshift__ __rshift__""".split()
_MONOTONE = """exp exp2 expm1 tanh sigmoid asinh atan sinh erfinv sqrt softplus hardtanh elu celu asin cbrt
hardsigmoid logsigmoid""".split()

_RULES = {}
_RULES.update(dict.fromkeys(_MOVES, _move))
_RULES.update(dict.fromkeys(_COMPARISONS, _comparison))
_RULES.update(dict.fromkeys(_LOGIC, _integers))
_RULES.update(dict.fromkeys(_MONOTONE, _monotone()))
_RULES.update({
    "constant_pad_nd": _pad, "as_strided": _as_strided, "convert_element_type": _cast, "_to_copy": _cast, "to": _cast,
    "device_put": _identity, "add": _add, "sub": _add, "mul": _mul, "div": _div, "true_divide": _div, "floor_divide": _div,
    "neg": _exact_unary, "abs": _exact_unary, "log": _log, "log2": _log, "log10": _log, "log1p": _log, "sin": _wave, "cos": _wave,
    "erf": _erf, "erfc": _erf, "rsqrt": _monotone(4), "reciprocal": _reciprocal, "pow": _pow, "fma": _fma, "addcmul": _addcmul,
    "addcdiv": _addcdiv, "lerp": _lerp, "square": lambda target, args, kwargs, dtype: _mul(torch.ops.aten.mul, [args[0], args[0]], {}, dtype),
    "lgamma": _lgamma, "gelu": _smooth(1.13), "silu": _smooth(1.1), "hardswish": _smooth(1.5), "mish": _smooth(1.1), "leaky_relu": _smooth(1.0),
    "minimum": _choice, "maximum": _choice, "clamp": _choice, "clamp_min": _choice, "clamp_max": _choice, "relu": _choice,
    "where": _where, "isnan": _classes, "isinf": _classes, "isfinite": _classes, "floor": _steps(torch.floor), "ceil": _steps(torch.ceil), "round": _steps(torch.round),
    "trunc": _steps(torch.trunc), "sign": _steps(torch.sign), "sum": _sum, "mean": _sum, "prod": _prod, "amax": _extreme,
    "amin": _extreme, "var": _moments, "var_mean": _moments, "std": _moments, "std_mean": _moments, "squared_deviations": _deviations, "cumsum": _cumulative,
    "_low_memory_max_pool_with_offsets": _max_pool,
    "_low_memory_max_pool2d_with_offsets": _max_pool, "max_pool2d_with_indices": _max_pool, "argmax": _where_extreme, "argmin": _where_extreme, "sort": _ordered, "topk": _ordered, "mm": _mm, "bmm": _mm, "mv": _mm,
    "dot": _mm, "matmul": _mm, "addmm": _addmm, "baddbmm": _addmm, "bias_addmm": _addmm, "convolution": _convolution,
    "convolution_backward": _convolution_backward, "index_put": _index_put,
    "_unsafe_index_put": _index_put, "_unsafe_masked_index_put_accumulate": _masked_index_put, "scatter_reduce": _scatter_reduce, "index_add": _linear(0, 3), "scatter_add": _linear(0, 3), "embedding_dense_backward": _linear(0),
    "avg_pool2d": _linear(0), "avg_pool2d_backward": _linear(0), "avg_pool1d": _linear(0), "_adaptive_avg_pool2d": _linear(0),
    "_adaptive_avg_pool2d_backward": _linear(0), "upsample_bilinear2d": _linear(0), "col2im": _linear(0),
    "full": _plain, "arange": _plain, "iota": _plain, "scalar_tensor": _plain, "zeros": _plain, "ones": _plain, "eye": _plain,
    "empty": _plain, "full_like": _like(None), "zeros_like": _like(0), "ones_like": _like(1), "empty_like": _like(0),
    "inductor_random": _random, "inductor_lookup_seed": _lookup_seed, "new_zeros": _plain, "copy_": _second, "copy": _second, "getitem": _getitem, "_softmax": _softmax, "_log_softmax": _softmax,
})
# Each element of the result is made of the elements at its place.
_BY_ELEMENT = frozenset("""convert_element_type _to_copy to add sub mul div true_divide neg abs log log2 log10 log1p sin cos erf erfc rsqrt reciprocal
pow fma addcmul addcdiv lerp square gelu silu hardswish mish leaky_relu minimum maximum clamp clamp_min clamp_max relu lgamma where isnan isinf isfinite floor
ceil round trunc sign""".split() + _COMPARISONS + _MONOTONE)
# Random numbers: what a kernel made of them is taken as it is.
RANDOM = frozenset("""rand randn inductor_randint inductor_seeds inductor_seed bernoulli
native_dropout rand_like randn_like randint normal uniform multinomial rand_philox philox_rand randperm""".split())
# Arguments of which only the shape counts: a kernel need not be given them.
SHAPE_ONLY = {"avg_pool2d_backward": 1, "_adaptive_avg_pool2d_backward": 1, "avg_pool3d_backward": 1, "full_like": 0, "zeros_like": 0,
              "ones_like": 0, "empty_like": 0, "new_zeros": 0, "new_full": 0, "new_ones": 0}
# Elements where they are, in another shape, order or dtype; may be anything's view.
MOVES = frozenset(_MOVES) | {"convert_element_type", "getitem", "copy_", "copy", "device_put"}


def has_rule(target):
    return target is operator.getitem or name_of(functional(target)) in _RULES


def _in_blocks(rule, target, args, kwargs, dtype):
    """The result of an operator that goes element by element, made in blocks that stay in the processor's cache; None where it is made
    at once: small, of no use in blocks, or exact."""
    inputs = bounded_in((args, kwargs))
    large = max(inputs, key=lambda item: item.value.numel()).value if inputs else None
    if large is None or large.numel() < 2 * BLOCK or large.device.type != "cpu" or \
            torch.broadcast_shapes(*(item.value.shape for item in inputs)) != large.shape:
        return None
    tensors = [tensor for item in inputs for tensor in (item.value, item.error) if tensor is not None]
    flat = all(tensor.is_contiguous() and tensor.shape == large.shape or tensor.numel() == 1 for tensor in tensors)
    shape = (large.numel(),) if flat else tuple(large.shape)
    axis = next(index for index, size in enumerate(shape) if size > 1)
    step = max(block_of(large.device) * shape[axis] // large.numel(), 1)
    if step >= shape[axis]:
        return None

    def part(tensor, begin, count):
        if tensor is None or tensor.numel() == 1:
            return tensor if tensor is None or not flat else tensor.reshape(())
        tensor = tensor.reshape(-1) if flat else tensor
        own = axis - (len(shape) - tensor.dim())
        return tensor if own < 0 or tensor.shape[own] == 1 else tensor.narrow(own, begin, count)

    def of(begin, count):
        def cut(item):
            return Bounded(part(item.value, begin, count), part(item.error, begin, count), item.dtype)
        return rule(target, mapped(args, cut), mapped(kwargs, cut), dtype)

    first = of(0, min(step, shape[axis]))
    if first.error is None:
        return None
    value = torch.empty_like(large, dtype=first.value.dtype)
    error = torch.empty_like(large, dtype=torch.float64)
    with rounded_everywhere():
        for begin in range(0, shape[axis], step):
            count = min(step, shape[axis] - begin)
            made = first if begin == 0 else of(begin, count)
            part(value, begin, count).copy_(made.value)
            part(error, begin, count).copy_(made.error if made.error is not None else torch.zeros(()))
    return Bounded(value, error, dtype)


def apply(target, args, kwargs, dtype):
    """The bounded results of one operator. `dtype`: that of the result (of the first floating-point one of several).
    NoRule where nothing can be said."""
    target = functional(target)
    name = name_of(target)
    if name in RANDOM:
        raise NoRule(RANDOM_NUMBERS)
    if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable and name not in _RULES:
        raise NoRule("%s changes its arguments" % name)  # which may be the program's own tensors
    if not isinstance(target, torch._ops.OpOverload) and name not in _RULES:
        raise NoRule("no rule for %s" % name)
    rule = _RULES.get(name)
    if any(item.dtype.is_complex for item in bounded_in((args, kwargs))):
        raise NoRule("complex numbers")
    # Aten schemas keep their dtypes among the arguments; everything here is float64.
    kwargs = {key: item for key, item in kwargs.items() if item is not None or key in ("dim",)}
    try:
        made = _in_blocks(rule, target, args, kwargs, dtype) if name in _BY_ELEMENT else None
        return made if made is not None else (rule or _native)(target, args, kwargs, dtype)
    except (RuntimeError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise NoRule("%s: %s" % (name, str(error).split("\n")[0][:100]))
