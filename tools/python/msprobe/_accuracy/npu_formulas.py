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


# (batch, heads, length, width) of what has another order of axes; "h": heads and width in one.
LAYOUTS = {"BSH": "b s h", "SBH": "s b h", "BSND": "b s n d", "BNSD": "b n s d"}


def _to_heads(x, layout, heads):
    """(batch, heads, length, width)"""
    order = LAYOUTS[layout].split()
    if "h" in order:
        x = x.reshape(*x.shape[:2], heads, x.shape[2] // heads)
        order = order[:2] + ["n", "d"]
    return x.permute(*[order.index(axis) for axis in "bnsd"])


def _from_heads(x, layout):
    order = LAYOUTS[layout].split()
    axes = order[:2] + ["n", "d"] if "h" in order else order
    x = x.permute(*["bnsd".index(axis) for axis in axes]).contiguous()
    return x.reshape(*x.shape[:2], -1) if "h" in order else x


def _hidden(rows, columns, pre, following, sparse_mode, mask, device):
    """What attention does not look at, True there; None: nothing is hidden. Modes 2 to 4 mean a band, whatever the compressed mask holds."""
    row = torch.arange(rows, device=device)[:, None]
    column = torch.arange(columns, device=device)[None, :]
    distance = column - row - (columns - rows if sparse_mode in (3, 4) else 0)
    if sparse_mode in (2, 3):
        return distance > 0
    if sparse_mode == 4:
        return (distance > following) | (distance < -pre)
    hidden = None if mask is None else mask.to(torch.bool)
    if sparse_mode == 0 and (pre < columns or following < columns) and mask is not None:
        hidden = hidden | (distance > following) | (distance < -pre)
    return hidden


def npu_fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None,  # pylint: disable=unused-argument
                         scale=1.0, keep_prob=1.0, pre_tockens=2147483647, next_tockens=2147483647,  # pylint: disable=unused-argument
                         inner_precise=0, prefix=None, sparse_mode=0, gen_mask_parallel=True, sync=False):  # pylint: disable=unused-argument
    """softmax(scale (Q K^T + pse), hidden places left out) V, nothing dropped; keys and values may have fewer heads."""
    if input_layout not in LAYOUTS:
        raise ValueError("there is no reference of npu_fusion_attention for the layout %s" % input_layout)
    width = query.shape[-1] // head_num if "H" in input_layout else query.shape[-1]
    heads = key.shape[-1] // width if "H" in input_layout else key.shape[input_layout.index("N")]
    q = _to_heads(query, input_layout, head_num)
    k, v = (_to_heads(x, input_layout, heads).repeat_interleave(head_num // heads, 1) for x in (key, value))
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores = scores * scale if pse is None else (scores + pse) * scale
    hidden = _hidden(q.shape[2], k.shape[2], pre_tockens, next_tockens, sparse_mode, atten_mask, q.device)
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    largest = scores.amax(-1, keepdim=True)
    exponentials = torch.exp(scores - largest)
    total = exponentials.sum(-1, keepdim=True)
    output = _from_heads(torch.matmul(exponentials / total, v), input_layout)
    return output, largest, total


FORWARD = {function.__name__: function for function in (
    npu_fast_gelu, npu_swiglu, npu_mish, npu_rms_norm, npu_linear, npu_layer_norm_eval, npu_confusion_transpose,
    npu_scaled_masked_softmax, npu_rotary_mul, npu_sort_v2, npu_group_norm_silu, npu_fusion_attention)}
FORWARD["fast_gelu"] = npu_fast_gelu
