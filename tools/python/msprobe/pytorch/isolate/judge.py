"""How far two tensors are apart, and how much of that is noise."""
import contextlib

import torch

from msprobe import _native
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.calls import RandomState, second_run
from msprobe.pytorch.free_benchmark.perturbation import mapped, on_host, tensors_in

# Error of a result whose inputs moved by one unit in the last place, or that was computed in another order,
# in units of the dtype's rounding error. 16-bit types are summed in float32.
_UNITS = {torch.float16: 2, torch.bfloat16: 2}
_MOST_UNITS = 32
_SEEDS = (1, 2)
# A result is wrong beyond so many times its floor.
GUILTY = 4.0


def _host(tensor):
    return tensor.detach() if on_host(tensor) else tensor.detach().cpu()


class Verdict:
    """`error`: the norm of the difference over that of the reference. `floor`: what noise makes."""

    __slots__ = ("error", "floor", "guilty")

    def __init__(self, error, floor):
        self.error = error
        self.floor = floor
        self.guilty = error > GUILTY * floor

    @property
    def factor(self):
        return self.error / self.floor if self.floor else 0.0


def floor_of(dtype):
    if not dtype.is_floating_point:
        return 0.0
    return _UNITS.get(dtype, _MOST_UNITS) * torch.finfo(dtype).eps / 2


def judge(actual, reference, measured_floor=None, scale=0.0):
    """`measured_floor()`: asked only where the floor of the dtype does not explain the difference.
    `scale`: the norm of what was summed up: a sum that nearly cancels keeps the rounding of its parts,
    as the gradient of a bias in front of a normalisation does."""
    with own_work(), torch.no_grad():
        if not actual.dtype.is_floating_point:
            same = torch.equal(_host(actual), _host(reference))
            return Verdict(0.0 if same else float("inf"), floor_of(torch.float32))
        error, _, _, not_finite = _native.measure_distance(_host(actual), _host(reference))
        if not_finite:
            error = float("inf")
        floor = floor_of(actual.dtype)
        if scale and error > GUILTY * floor:
            floor *= max(1.0, scale / max(norm_of(reference), torch.finfo(torch.float64).tiny))
        if error > GUILTY * floor and measured_floor is not None:
            floor = max(floor, measured_floor())
        return Verdict(error, floor)


def norm_of(tensor):
    with own_work(), torch.no_grad():
        return float(torch.linalg.vector_norm(_host(tensor).double()))


def noise_of(module, args, kwargs):
    """How far the results of a module are apart when its inputs move by a unit in the last place, by
    lot; 0 where that cannot be found out. The module is left as it is."""
    tensors = [tensor for tensor in tensors_in(args, kwargs) if tensor.is_floating_point()]
    with _kept(module), contextlib.suppress(Exception):
        state = RandomState(tensors_in(args, kwargs))
        plain = _floats(module, args, kwargs, state)
        largest = 0.0
        for seed in _SEEDS:
            moved = mapped(args, lambda tensor: _moved(tensor, seed))
            named = mapped(kwargs, lambda tensor: _moved(tensor, seed))
            for result, other in zip(plain, _floats(module, moved, named, state)):
                error, _, _, not_finite = _native.measure_distance(_host(other), _host(result))
                largest = max(largest, 0.0 if not_finite else error)
        return largest if tensors else 0.0
    return 0.0


def _floats(module, args, kwargs, state):
    with second_run(state, True):
        copies = mapped(args, lambda tensor: tensor.detach().clone())
        named = mapped(kwargs, lambda tensor: tensor.detach().clone())
        return [tensor for tensor in tensors_in(module.forward(*copies, **named))
                if tensor.is_floating_point()]


def _moved(tensor, seed):
    if not tensor.is_floating_point() or tensor.layout is not torch.strided:
        return tensor
    plain = _host(tensor)
    out = torch.empty(tensor.shape, dtype=tensor.dtype)
    _native.perturb(plain, out, _native.PERTURB_RANDOM_NOISE, seed)
    return out.to(tensor.device)


@contextlib.contextmanager
def _kept(module):
    """Running statistics are copies meanwhile: the graph of the call refers to the real ones."""
    buffers = [(part, name, buffer) for part in module.modules()
               for name, buffer in part._buffers.items() if buffer is not None]
    try:
        for part, name, buffer in buffers:
            part._buffers[name] = buffer.detach().clone()
        yield
    finally:
        for part, name, buffer in buffers:
            part._buffers[name] = buffer
