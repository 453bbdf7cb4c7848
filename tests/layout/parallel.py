"""Layers cut over processes, written by hand the way Megatron does it, and the grid of processes they run on.

Every layer asks `CONTEXT.plant` whether a fault was planted at its place; without one it computes what the whole
layer computes.
"""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Grid:
    """Which rank is what: tensor parallel varies fastest, then context, data, pipeline."""

    AXES = ("tp", "cp", "dp", "pp")

    def __init__(self, tp=1, cp=1, dp=1, pp=1):
        self.size = {"tp": tp, "cp": cp, "dp": dp, "pp": pp}
        self.world = tp * cp * dp * pp

    def place(self, rank):
        found = {}
        for axis in self.AXES:
            found[axis] = rank % self.size[axis]
            rank //= self.size[axis]
        return found

    def rank(self, **place):
        found, step = 0, 1
        for axis in self.AXES:
            found += place.get(axis, 0) * step
            step *= self.size[axis]
        return found

    def group(self, rank, axes):
        """The ranks that differ from `rank` only along these axes."""
        mine = self.place(rank)
        return [other for other in range(self.world)
                if all(self.place(other)[axis] == mine[axis] for axis in self.AXES if axis not in axes)]


class NoPlant:
    kind = None

    def at(self, kind, place=None):
        return False


class Context:
    """What a process knows about itself; one per run."""

    def __init__(self):
        self.setup, self.grid, self.rank, self.groups, self.plant = None, Grid(), 0, {}, NoPlant()
        self.sequence_parallel = False
        self.sequence_dim = 0

    def start(self, setup, grid, rank, plant):
        self.__init__()
        self.setup, self.grid, self.rank, self.plant = setup, grid, rank, plant or NoPlant()
        self.sequence_parallel = setup.get("sp", False) and grid.size["tp"] > 1
        self.sequence_dim = 0 if setup.get("order", "sbh") == "sbh" else 1
        if grid.world > 1:
            for axes in (("tp",), ("cp",), ("dp",), ("pp",), ("dp", "cp")):
                made = {}
                for member in range(grid.world):  # every rank makes every group, in one order
                    ranks = tuple(grid.group(member, axes))
                    if ranks not in made:
                        made[ranks] = dist.new_group(list(ranks)) if len(ranks) > 1 else None
                    if member == rank:
                        self.groups["+".join(axes)] = made[ranks]

    def size(self, axis):
        return self.grid.size[axis]

    def index(self, axis):
        return self.grid.place(self.rank)[axis]

    def group(self, axis):
        return self.groups.get(axis)


CONTEXT = Context()


def cut(tensor, dim, part, parts):
    return tensor.chunk(parts, dim)[part].contiguous()


def _reduced(tensor, axis="tp"):
    if CONTEXT.size(axis) == 1:
        return tensor
    tensor = tensor.contiguous().clone()
    dist.all_reduce(tensor, group=CONTEXT.group(axis))
    return tensor


def _gathered(tensor, dim, axis="tp", reverse=False, only_mine=False):
    count = CONTEXT.size(axis)
    if count == 1:
        return tensor
    parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(count)]
    dist.all_gather(parts, tensor.contiguous(), group=CONTEXT.group(axis))
    if only_mine:  # a rank forgets to write what the last one sent
        parts[count - 1] = torch.zeros_like(parts[count - 1])
    return torch.cat(parts[::-1] if reverse else parts, dim)


class _CopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, name):
        ctx.name = name
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        if CONTEXT.plant.at("backward_reduction_forgotten", ctx.name):
            return gradient, None
        return _reduced(gradient), None


class _ReduceFromRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, name):
        if CONTEXT.plant.at("reduction_forgotten", name):
            return value.clone()
        value = _reduced(value, "dp" if CONTEXT.plant.at("wrong_group", name) else "tp")
        return _reduced(value) if CONTEXT.plant.at("reduction_doubled", name) else value

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _GatherFromRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, dim, name):
        ctx.dim = dim
        return _gathered(value, dim, reverse=CONTEXT.plant.at("gathered_in_wrong_order", name),
                         only_mine=CONTEXT.plant.at("part_lost", name))

    @staticmethod
    def backward(ctx, gradient):
        return cut(gradient, ctx.dim, CONTEXT.index("tp"), CONTEXT.size("tp")), None, None


class _GatherSequence(torch.autograd.Function):
    """All ranks get the whole sequence; its gradients are summed and cut again."""

    @staticmethod
    def forward(ctx, value, axis, name):
        ctx.axis, ctx.name = axis, name
        return _gathered(value, CONTEXT.sequence_dim, axis)

    @staticmethod
    def backward(ctx, gradient):
        if not CONTEXT.plant.at("backward_reduction_forgotten", ctx.name):
            gradient = _reduced(gradient, ctx.axis)
        return cut(gradient, CONTEXT.sequence_dim, CONTEXT.index(ctx.axis), CONTEXT.size(ctx.axis)), None, None


class _ReduceScatterSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, name):
        if not CONTEXT.plant.at("reduction_forgotten", name):
            value = _reduced(value, "dp" if CONTEXT.plant.at("wrong_group", name) else "tp")
        if CONTEXT.plant.at("reduction_doubled", name):
            value = _reduced(value)
        return cut(value, CONTEXT.sequence_dim, CONTEXT.index("tp"), CONTEXT.size("tp"))

    @staticmethod
    def backward(ctx, gradient):
        return _gathered(gradient, CONTEXT.sequence_dim), None


class _ScatterSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, name):
        part = CONTEXT.index("tp")
        if CONTEXT.plant.at("scattered_over_wrong_group", name):  # of two ranks where there are more
            part %= 2
        return cut(value, CONTEXT.sequence_dim, part, CONTEXT.size("tp"))

    @staticmethod
    def backward(ctx, gradient):
        return _gathered(gradient, CONTEXT.sequence_dim), None


gather_sequence = _GatherSequence.apply
gather_from_ranks = _GatherFromRanks.apply


def _mark(parameter, dim):
    """As Megatron marks what is cut."""
    parameter.tensor_model_parallel = dim is not None
    if dim is not None:
        parameter.partition_dim, parameter.partition_stride = dim, 1
    return parameter


class _Parallel(nn.Module):
    full_name = ""  # the global name, set once the model is there


class ColumnParallelLinear(_Parallel):
    """Each rank has some of the outputs."""

    def __init__(self, inputs, outputs, bias=True, gather_output=False):
        super().__init__()
        count = CONTEXT.size("tp")
        self.gather_output = gather_output
        self.weight = _mark(nn.Parameter(torch.empty(outputs // count, inputs)), 0)
        self.bias = _mark(nn.Parameter(torch.empty(outputs // count)), 0) if bias else None

    def forward(self, value):
        if CONTEXT.sequence_parallel:
            value = gather_sequence(value, "tp", self.full_name)
        elif CONTEXT.size("tp") > 1:
            value = _CopyToRanks.apply(value, self.full_name)
        value = F.linear(value, self.weight, self.bias)
        if self.gather_output and CONTEXT.size("tp") > 1:
            value = gather_from_ranks(value, value.dim() - 1, self.full_name)
        return value


class RowParallelLinear(_Parallel):
    """Each rank has some of the inputs; the outputs are summed."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        count = CONTEXT.size("tp")
        self.weight = _mark(nn.Parameter(torch.empty(outputs, inputs // count)), 1)
        self.bias = _mark(nn.Parameter(torch.empty(outputs)), None) if bias else None
        if bias:
            self.bias.sequence_parallel = CONTEXT.sequence_parallel

    def forward(self, value):
        inside = self.bias is not None and CONTEXT.plant.at("bias_per_rank", self.full_name)
        value = F.linear(value, self.weight, self.bias if inside else None)
        if CONTEXT.sequence_parallel:
            value = _ReduceScatterSequence.apply(value, self.full_name)
        elif CONTEXT.size("tp") > 1:
            value = _ReduceFromRanks.apply(value, self.full_name)
        if self.bias is not None and not inside:
            value = value + self.bias
        return value


class VocabParallelEmbedding(_Parallel):
    """Each rank has some rows of the table; rows of others are zero before the sum."""

    def __init__(self, count, width):
        super().__init__()
        ranks = CONTEXT.size("tp")
        self.first = CONTEXT.index("tp") * (count // ranks)
        self.vocab_start_index, self.vocab_end_index = self.first, self.first + count // ranks
        self.num_embeddings_per_partition = count // ranks
        self.weight = _mark(nn.Parameter(torch.empty(count // ranks, width)), 0)

    def forward(self, tokens):
        if CONTEXT.size("tp") == 1:
            return F.embedding(tokens, self.weight)
        first = self.first + (1 if CONTEXT.plant.at("vocabulary_range", self.full_name) and CONTEXT.index("tp") else 0)
        local = tokens - first
        outside = (local < 0) | (local >= self.weight.shape[0])
        value = F.embedding(local.masked_fill(outside, 0), self.weight)
        value = value.masked_fill(outside.unsqueeze(-1), 0.0)
        return _ReduceFromRanks.apply(value, self.full_name)


class ScatterToSequence(_Parallel):
    """Where sequence parallelism begins: each rank keeps its part of the sequence."""

    def forward(self, value):
        if not CONTEXT.sequence_parallel:
            return value
        return _ScatterSequence.apply(value, self.full_name)


class _VocabParallelCrossEntropy(torch.autograd.Function):
    """Per-token loss from logits of which each rank has some columns."""

    @staticmethod
    def forward(ctx, logits, labels, first):
        highest = logits.max(-1)[0]
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=CONTEXT.group("tp"))
        logits = logits - highest.unsqueeze(-1)
        local = labels - first
        outside = (local < 0) | (local >= logits.shape[-1])
        local = local.masked_fill(outside, 0)
        chosen = logits.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(outside, 0.0)
        exponents = logits.exp()
        total = exponents.sum(-1)
        dist.all_reduce(chosen, group=CONTEXT.group("tp"))
        dist.all_reduce(total, group=CONTEXT.group("tp"))
        ctx.save_for_backward(exponents / total.unsqueeze(-1), local, outside)
        return total.log() - chosen

    @staticmethod
    def backward(ctx, gradient):
        softmax, local, outside = ctx.saved_tensors
        result = softmax.clone()
        result.scatter_add_(-1, local.unsqueeze(-1), -(~outside).to(softmax.dtype).unsqueeze(-1))
        return result * gradient.unsqueeze(-1), None, None


class LanguageModelLoss(_Parallel):
    """The mean over tokens, of all ranks where some are left out; columns that only pad the vocabulary take no part."""

    def __init__(self, vocabulary, is_cut):
        super().__init__()
        self.vocabulary, self.is_cut = vocabulary, is_cut

    def forward(self, logits, labels):
        first = CONTEXT.index("tp") * logits.shape[-1] if self.is_cut else 0
        padded = torch.arange(logits.shape[-1]) + first >= self.vocabulary
        if bool(padded.any()) and not CONTEXT.plant.at("padding_counted", self.full_name):
            logits = logits.masked_fill(padded, -1e4)
        if self.is_cut and CONTEXT.size("tp") > 1:
            losses = _VocabParallelCrossEntropy.apply(logits, labels, first)
        else:
            losses = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
        if CONTEXT.setup.get("ignored") is None:
            return losses.mean()
        counted = (labels.reshape(losses.shape) != CONTEXT.setup["ignored"]).to(losses.dtype)
        count = counted.sum()
        if not CONTEXT.plant.at("tokens_counted_locally", self.full_name):
            count = _reduced(count, "dp") / CONTEXT.size("dp")
        return (losses * counted).sum() / count
