"""What fused NPU operators compute, in PyTorch's own: the reference on a CPU, and on devices that lack them.

A user adds further ones, or better ones, with `--reference FILE`.
"""
import torch
from torch.nn import functional


def npu_fast_gelu(x):
    """x * sigmoid(1.702 |x|) * exp(0.851 (x - |x|)), which is x * sigmoid(1.702 x) without overflow."""
    size = torch.abs(x)
    return x / (1.0 + torch.exp(-1.702 * size)) * torch.exp(0.851 * (x - size))


def npu_swiglu(x, dim=-1):
    gate, value = torch.chunk(x, 2, dim=dim)
    return functional.silu(gate) * value


def npu_mish(x):
    return functional.mish(x)


def npu_rms_norm(x, gamma, epsilon=1e-6):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return x * scale * gamma, scale.float()


def npu_linear(x, weight, bias=None):
    return functional.linear(x, weight, bias)


def npu_layer_norm_eval(data, normalized_shape, weight=None, bias=None, eps=1e-5):
    return functional.layer_norm(data, normalized_shape, weight, bias, eps)


def npu_confusion_transpose(data, perm, shape, transpose_first):
    if transpose_first:
        return data.permute(*perm).contiguous().view(shape)
    return data.view(shape).permute(*perm)


def npu_scaled_masked_softmax(x, mask, scale=1.0, fixed_triu_mask=False):
    if fixed_triu_mask:
        mask = torch.triu(torch.ones(mask.shape, dtype=torch.bool), diagonal=1).to(mask.device)
    return functional.softmax((x * scale).masked_fill(mask, -10000.0), dim=-1)


def npu_rotary_mul(x, r1, r2):
    first, second = torch.chunk(x, 2, -1)
    return r1 * x + r2 * torch.cat((-second, first), dim=-1)


def npu_sort_v2(x, dim=-1, descending=False, out=None):  # pylint: disable=unused-argument
    return torch.sort(x, dim=dim, descending=descending)[0]


def npu_group_norm_silu(x, weight, bias, group, eps=1e-5):
    """The norm through SiLU, and the mean and reciprocal deviation of each group."""
    grouped = x.reshape(x.shape[0], group, -1)
    mean = grouped.mean(-1)
    deviation = torch.rsqrt(grouped.var(-1, unbiased=False) + eps)
    return functional.silu(functional.group_norm(x, group, weight, bias, eps)), mean, deviation


FORWARD = {function.__name__: function for function in (
    npu_fast_gelu, npu_swiglu, npu_mish, npu_rms_norm, npu_linear, npu_layer_norm_eval, npu_confusion_transpose,
    npu_scaled_masked_softmax, npu_rotary_mul, npu_sort_v2, npu_group_norm_silu)}
