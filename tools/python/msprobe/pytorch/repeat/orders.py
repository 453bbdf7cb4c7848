"""The same call with its sums in another order: the axis that is summed over is permuted in all
arguments that have it. And another number of threads, which share sums out."""
import contextlib
import threading

import torch


def order_of(function):
    """Of "Functional.linear": (args, kwargs, seed) -> (args, kwargs, undo or None), which gives None for
    arguments that it does not know. None where nothing is summed, or by a rule that is not known."""
    return _ORDERS.get(function.rpartition(".")[2])


@contextlib.contextmanager
def other_threads():
    """In this block sums are shared out over another number of threads, where that leaves no trace. Not
    with MKL: once given a number it no longer chooses one itself. And not on threads of autograd: the
    number would be theirs alone afterwards."""
    before = torch.get_num_threads()
    allowed = (not torch.backends.mkl.is_available() and
               threading.current_thread() is threading.main_thread())
    if allowed:
        torch.set_num_threads(1 if before > 1 else 2)
    try:
        yield
    finally:
        if allowed:
            torch.set_num_threads(before)


# ---- permutations ----

def _permutation(length, seed, tensor):
    """Random numbers of its own: those of the training stay as they are."""
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed), device="cpu")
    return order.to(tensor.device)


def _along(tensor, axis, order):
    return tensor.index_select(axis, order)


def _argument(args, kwargs, position, *names, default=None):
    if len(args) > position:
        return args[position]
    return next((kwargs[name] for name in names if name in kwargs), default)


def _is_tensor(value, least_axes=1):
    return isinstance(value, torch.Tensor) and value.dim() >= least_axes


def _replaced(args, positions_and_values):
    args = list(args)
    for position, value in positions_and_values:
        args[position] = value
    return tuple(args)


def _products(first, second):
    """Of two factors at these positions."""

    def order(args, kwargs, seed):
        if len(args) <= second or not _is_tensor(args[first]) or not _is_tensor(args[second]):
            return None
        left, right = args[first], args[second]
        axis = right.dim() - 2 if right.dim() > 1 else 0
        if left.shape[-1] != right.shape[axis]:
            return None
        places = _permutation(left.shape[-1], seed, left)
        return _replaced(args, [(first, _along(left, left.dim() - 1, places)),
                                (second, _along(right, axis, places))]), kwargs, None

    return order


def _linear(args, kwargs, seed):
    if len(args) < 2 or not _is_tensor(args[0]) or not _is_tensor(args[1]):
        return None
    places = _permutation(args[0].shape[-1], seed, args[0])
    return _replaced(args, [(i, _along(args[i], args[i].dim() - 1, places)) for i in (0, 1)]), kwargs, None


def _convolution(args, kwargs, seed):
    if (len(args) < 2 or not _is_tensor(args[0], 2) or not _is_tensor(args[1], 3) or
            _argument(args, kwargs, 6, "groups", default=1) != 1):
        return None
    axis = args[0].dim() - args[1].dim() + 1  # one less without a batch
    places = _permutation(args[1].shape[1], seed, args[0])
    return _replaced(args, [(0, _along(args[0], axis, places)),
                            (1, _along(args[1], 1, places))]), kwargs, None


def _reduction(args, kwargs, seed):
    if not args or not _is_tensor(args[0]):
        return None
    axes = _argument(args, kwargs, 1, "dim", "axis")
    axes = range(args[0].dim()) if axes is None else axes
    axes = [axes] if isinstance(axes, int) and not isinstance(axes, bool) else axes
    if not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes):
        return None
    value = args[0]
    for axis in axes:
        value = _along(value, axis, _permutation(value.shape[axis], seed, value))
    return (value,) + tuple(args[1:]), kwargs, None


def _softmax(args, kwargs, seed):
    axis = _argument(args, kwargs, 1, "dim")
    if not args or not _is_tensor(args[0]) or not isinstance(axis, int):
        return None
    places = _permutation(args[0].shape[axis], seed, args[0])
    return ((_along(args[0], axis, places),) + tuple(args[1:]), kwargs,
            lambda result: _along(result, axis, torch.argsort(places)))


def _layer_norm(args, kwargs, seed):
    shape = _argument(args, kwargs, 1, "normalized_shape", default=())
    if not args or not _is_tensor(args[0]) or not isinstance(shape, (list, tuple)) or len(shape) != 1:
        return None
    places = _permutation(args[0].shape[-1], seed, args[0])

    def permuted(value):
        return _along(value, value.dim() - 1, places) if _is_tensor(value) else value

    return (tuple(permuted(value) for value in args),
            {key: permuted(value) for key, value in kwargs.items()},
            lambda result: _along(result, result.dim() - 1, torch.argsort(places)))


_ORDERS = {
    "linear": _linear,
    # Over the width of queries and keys.
    "scaled_dot_product_attention": _linear,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "softmin": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    **{name: _products(0, 1) for name in ("matmul", "__matmul__", "mm", "bmm", "mv", "dot")},
    **{name: _products(1, 2) for name in ("addmm", "addmv", "baddbmm", "addbmm")},
    **{name: _reduction for name in ("sum", "mean", "nansum", "nanmean", "std", "var", "logsumexp")},
}
