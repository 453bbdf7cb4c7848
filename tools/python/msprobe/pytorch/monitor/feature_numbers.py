"""The formulas behind features of single layers; each gives a list of tensors without dimensions.

Computed where the tensors lie, in their dtype: float32 or float64. The random state of the training
is not touched.
"""
import torch

# Scores of one head that are computed at a time: bounds the memory for long sequences.
_SCORES = 1 << 22
_POWER_ITERATIONS = 3
_EPSILON = 1e-12


def attention(query, key):
    """[entropy, softmax_max] of causal attention of one head.

    `query` [rows, d] and `key` [columns, d] in float32. p = softmax(query key^T / sqrt(d)) over the
    columns up to the row's own number; entropy = mean over rows of -sum p ln p, softmax_max = mean
    over rows of max p.
    """
    rows, columns = query.shape[0], key.shape[0]
    scale = query.shape[1] ** -0.5
    height = max(1, _SCORES // max(1, columns))
    entropy = torch.zeros((), device=query.device)
    largest = torch.zeros((), device=query.device)
    for first in range(0, rows, height):
        last = min(first + height, rows)
        seen = min(last, columns)
        scores = (query[first:last] @ key[:seen].t()) * scale
        row = torch.arange(first, last, device=query.device).unsqueeze(1)
        column = torch.arange(seen, device=query.device)
        scores = scores.masked_fill(column > row, float("-inf"))
        shares = torch.log_softmax(scores, dim=-1)
        weights = shares.exp()
        entropy += entropy_of(weights, shares).sum()
        largest += weights.amax(dim=-1).sum()
    return [entropy / rows, largest / rows]


def entropy_of(weights, shares):
    """-sum p ln p over the last axis, 0 where p is; `shares` = ln p. NaN stays NaN."""
    return -torch.where(weights == 0, torch.zeros_like(weights), weights * shares).sum(dim=-1)


def spectrum(weight):
    """[sr, kernel_norm]: Frobenius norm / largest singular value, and that value, estimated by
    power iterations of W^T W. Zeros for what is not a matrix."""
    zero = torch.zeros((), device=weight.device)
    if weight.dim() != 2 or weight.numel() == 0:
        return [zero, zero]
    vector = _start_vector(weight.shape[1]).to(weight.device)
    for _ in range(_POWER_ITERATIONS):
        vector = weight.t() @ (weight @ vector)
        vector = vector / torch.linalg.vector_norm(vector).clamp_min(_EPSILON)
    largest = torch.linalg.vector_norm(weight @ vector)
    norm = torch.linalg.vector_norm(weight)
    return [torch.where(largest == 0, zero, norm / largest), largest]


def _start_vector(length):
    """The same in every step and run, so that steps can be compared."""
    generator = torch.Generator().manual_seed(length)
    vector = torch.randn(length, generator=generator)
    return vector / torch.linalg.vector_norm(vector)


def router_weight_similarity(weight):
    """[mean cosine of the weights of two experts]: the longer axis is the hidden one. 0 for fewer
    than two experts."""
    if weight.dim() != 2 or min(weight.shape) < 2:
        return [torch.zeros((), device=weight.device)]
    experts = weight.t() if weight.shape[0] < weight.shape[1] else weight
    experts = experts / torch.linalg.vector_norm(experts, dim=0).clamp_min(_EPSILON)
    count = experts.shape[1]
    # The sum over all pairs is the square of the sum, without the squares.
    pairs = experts.sum(dim=1).square().sum() - experts.square().sum()
    return [pairs / (count * (count - 1))]


def token_expert_entropy(logits):
    """[mean over tokens of -sum p ln p], p = softmax over the experts, the last axis."""
    shares = torch.log_softmax(logits.reshape(-1, logits.shape[-1]), dim=-1)
    return [entropy_of(shares.exp(), shares).mean()]
