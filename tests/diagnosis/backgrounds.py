"""What may differ between two runs that are both right.

A background is what one side's kernels do: nothing of its own, more threads, or sums in another order.
It works below autograd, on the operators of ATen, so that the graph and what a dump holds have the same
form on all sides.
"""
import torch

BACKGROUNDS = ("none", "threads", "reordered", "exact_sums", "bf16_both", "bf16_against_fp32")

# Operators that sum, and so may do it in any order; those after them are functions with more than
# one good approximation.
_SUMMING = {
    "mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "native_layer_norm",
    "native_layer_norm_backward", "native_batch_norm", "_native_batch_norm_legit", "native_batch_norm_backward",
    "native_group_norm", "native_group_norm_backward", "_softmax", "_softmax_backward_data", "_log_softmax",
    "_log_softmax_backward_data", "sum", "mean", "embedding_dense_backward", "mse_loss", "gelu", "gelu_backward",
    "silu", "silu_backward", "tanh", "sigmoid", "rsqrt", "exp", "sin", "cos"}
_MATMUL = {"mm", "addmm", "bmm"}
_LACKING_BF16 = {"convolution", "convolution_backward"}  # on a CPU, transposed ones


class Side:
    """How one side of a background computes."""

    def __init__(self, dtype="float32", threads=1, kernels="plain"):
        self.dtype = dtype          # of parameters and data
        self.threads = threads
        self.kernels = kernels      # "plain", "reordered": inner dimension in chunks; "exact": summed in double


def sides_of(background, rng):
    """(npu, bench)."""
    if background == "threads":
        return Side(threads=rng.choice([2, 3, 4])), Side()
    if background == "reordered":
        return Side(kernels="reordered"), Side()
    if background == "exact_sums":
        return Side(kernels="exact"), Side()
    if background == "bf16_both":
        return Side("bfloat16", kernels="exact"), Side("bfloat16")
    if background == "bf16_against_fp32":
        sides = [Side("bfloat16"), Side(kernels=rng.choice(["plain", "exact"]))]
        return tuple(sides if rng.random() < 0.7 else sides[::-1])
    return Side(), Side()


def compute(kernels, name, func, args, kwargs):
    """The result of an operator as this side computes it."""
    if name in _LACKING_BF16 and args[0].dtype == torch.bfloat16:
        return _wider(func, args, kwargs)
    if kernels == "plain" or name not in _SUMMING:
        return func(*args, **kwargs)
    if kernels == "reordered" and name in _MATMUL:
        return _in_chunks(name, func, args, kwargs)
    return _wider(func, args, kwargs)


def _in_chunks(name, func, args, kwargs):
    if kwargs or args[-1].shape[-2] < 4:
        return func(*args, **kwargs)
    *head, a, b = args
    cut = max(1, a.shape[-1] // 3)
    product = torch.bmm if name == "bmm" else torch.mm
    result = product(a[..., cut:], b[..., cut:, :]) + product(a[..., :cut], b[..., :cut, :])
    return result + head[0] if head else result


def _map(value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(item, change) for item in value)
    return value


def _wider(func, args, kwargs):
    """Computed in the next wider dtype and rounded once."""
    dtypes = [arg.dtype for arg in args if isinstance(arg, torch.Tensor) and arg.is_floating_point()]
    if not dtypes or any(value is not None for value in kwargs.values()):
        return func(*args, **kwargs)
    narrow = dtypes[0]
    wide = torch.float64 if narrow == torch.float32 else torch.float32
    if any(dtype != narrow for dtype in dtypes):
        return func(*args, **kwargs)
    copies = []

    def widen(tensor):
        if tensor.dtype != narrow:
            return tensor
        copies.append((tensor, tensor.to(wide)))
        return copies[-1][1]

    result = func(*_map(args, widen), **kwargs)
    for tensor, copy in copies:  # running statistics are updated in place
        if func._schema.name in ("aten::native_batch_norm", "aten::_native_batch_norm_legit"):
            tensor.copy_(copy)
    return _map(result, lambda t: t.to(narrow) if t.dtype == wide else t)
