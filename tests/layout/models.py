"""One logical model each of a small GPT, a mixture of experts and a convolutional net; their weights, and how these are cut.

A model is built in one of two styles: `parallel` (the layers of parallel.py) or `plain` (layers of PyTorch).
Weights are made once as a whole, under global names, and every rank cuts its own from them.
"""
import math
import re

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import parallel
from parallel import CONTEXT


def pad(vocabulary, multiple):
    return (vocabulary + multiple - 1) // multiple * multiple


class Maker:
    """Makes layers in the style of one side."""

    def __init__(self, setup):
        self.setup, self.parallel = setup, setup["style"] == "parallel"

    def column(self, inputs, outputs, bias=True, gather_output=False):
        if self.parallel:
            return parallel.ColumnParallelLinear(inputs, outputs, bias, gather_output)
        return nn.Linear(inputs, outputs, bias)

    def row(self, inputs, outputs, bias=True):
        return parallel.RowParallelLinear(inputs, outputs, bias) if self.parallel else nn.Linear(inputs, outputs, bias)

    def embedding(self, count, width):
        return parallel.VocabParallelEmbedding(count, width) if self.parallel else nn.Embedding(count, width)


class Norm(nn.LayerNorm):
    def forward(self, value):
        if CONTEXT.plant.at("sum_over_ranks_of_epsilon", self.full_name):
            return F.layer_norm(value, self.normalized_shape, self.weight, self.bias, self.eps * 1e3)
        return super().forward(value)


def sequence_chunks(rank_index, ranks):
    """Context parallel ranks hold one chunk from the front and one from the back: equal work under a causal mask."""
    return [rank_index, 2 * ranks - 1 - rank_index]


def local_positions(length, fault=False):
    """The positions that this rank's part of a sequence has."""
    ranks, index = CONTEXT.size("cp"), CONTEXT.index("cp")
    if ranks == 1:
        return torch.arange(length)
    if fault and index > 0:
        return torch.arange(length // ranks)
    chunks = torch.arange(length).chunk(2 * ranks)
    return torch.cat([chunks[i] for i in sequence_chunks(index, ranks)])


class Rotary(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.width, self.length = width, length

    def forward(self, value):  # [b, heads, s, width]
        positions = local_positions(self.length, CONTEXT.plant.at("positions_without_offset", self.full_name))
        half = self.width // 2
        angles = positions.unsqueeze(-1) * (10000.0 ** (-torch.arange(half) / half))
        a, b = value[..., :half], value[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class CoreAttention(nn.Module):
    """Softmax attention under a causal mask; with context parallelism over the keys of all ranks."""

    def __init__(self, length, width):
        super().__init__()
        self.length, self.width = length, width

    def forward(self, query, key, value):  # [b, heads, s, width]
        positions = local_positions(self.length)
        everywhere = positions
        if CONTEXT.size("cp") > 1:
            key, value = (_gathered_keys(t, self.full_name) for t in (key, value))
            everywhere = torch.cat([torch.arange(self.length).chunk(2 * CONTEXT.size("cp"))[i]
                                    for rank in range(CONTEXT.size("cp"))
                                    for i in sequence_chunks(rank, CONTEXT.size("cp"))])
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.width)
        mask = positions.unsqueeze(-1) < everywhere.unsqueeze(0)
        return torch.matmul(F.softmax(scores.masked_fill(mask, -1e9), -1), value)


class _GatherKeys(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, name):
        return parallel._gathered(value, 2, "cp")

    @staticmethod
    def backward(ctx, gradient):
        gradient = parallel._reduced(gradient, "cp")
        return parallel.cut(gradient, 2, CONTEXT.index("cp"), CONTEXT.size("cp")), None


_gathered_keys = _GatherKeys.apply


class SelfAttention(nn.Module):
    def __init__(self, setup, make):
        super().__init__()
        width = setup["hidden"]
        self.setup, self.width = setup, width // setup["heads"]
        self.linear_qkv = make.column(width, 3 * width, setup["bias"])
        if setup["positions"] == "rope":
            self.rotary = Rotary(self.width, setup["length"])
        self.core_attention = CoreAttention(setup["length"], self.width)
        self.linear_proj = make.row(width, width, setup["row_bias"])

    def forward(self, value):
        is_sbh = self.setup["order"] == "sbh"
        mixed = self.linear_qkv(value)
        a, b, _ = mixed.shape
        if self.setup["qkv"] == "blocks":    # all queries, all keys, all values
            query, key, content = (t.reshape(a, b, -1, self.width) for t in mixed.chunk(3, -1))
        else:                                # query, key, value of one head after the other
            query, key, content = mixed.reshape(a, b, -1, 3 * self.width).chunk(3, -1)
        to_heads = (1, 2, 0, 3) if is_sbh else (0, 2, 1, 3)
        query, key, content = (t.permute(to_heads) for t in (query, key, content))
        if self.setup["positions"] == "rope":
            query, key = self.rotary(query), self.rotary(key)
        found = self.core_attention(query, key, content)
        found = found.permute((2, 0, 1, 3) if is_sbh else (0, 2, 1, 3)).flatten(2)
        return self.linear_proj(found)


class MLP(nn.Module):
    def __init__(self, setup, make):
        super().__init__()
        self.gated = setup["gated"]
        self.linear_fc1 = make.column(setup["hidden"], setup["ffn"] * (2 if self.gated else 1), setup["bias"])
        self.linear_fc2 = make.row(setup["ffn"], setup["hidden"], setup["row_bias"])

    def forward(self, value):
        value = self.linear_fc1(value)
        if self.gated:
            gate, up = value.chunk(2, -1)
            value = F.silu(gate) * up
        else:
            value = F.gelu(value)
        return self.linear_fc2(value)


class _Dispatch(torch.autograd.Function):
    """The tokens of all ranks that share the experts."""

    @staticmethod
    def forward(ctx, value):
        return parallel._gathered(value, 0, "dp")

    @staticmethod
    def backward(ctx, gradient):
        return parallel.cut(parallel._reduced(gradient, "dp"), 0, CONTEXT.index("dp"), CONTEXT.size("dp"))


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return parallel.cut(parallel._reduced(value, "dp"), 0, CONTEXT.index("dp"), CONTEXT.size("dp"))

    @staticmethod
    def backward(ctx, gradient):
        return parallel._gathered(gradient, 0, "dp")


class Experts(nn.Module):
    """The experts of this rank: global numbers first, first + 1, ..."""

    def __init__(self, setup, make):
        super().__init__()
        self.count = setup["experts"]
        self.ranks = CONTEXT.size("dp") if setup.get("ep", 1) > 1 else 1
        self.first = CONTEXT.index("dp") * (self.count // self.ranks) if self.ranks > 1 else 0
        self.local_experts = nn.ModuleList(MLP(setup, make) for _ in range(self.count // self.ranks))

    def forward(self, tokens, chosen, weights):
        if self.ranks > 1:
            tokens, weights = _Dispatch.apply(tokens), _Dispatch.apply(weights)
            chosen = parallel._gathered(chosen, 0, "dp")
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.local_experts):
            number += self.first
            if CONTEXT.plant.at("tokens_to_wrong_expert", self.full_name):
                number = (number + 1) % self.count
            rows, place = (chosen == number).nonzero(as_tuple=True)
            result = result.index_add(0, rows, expert(tokens[rows]) * weights[rows, place].unsqueeze(-1))
        return _Combine.apply(result) if self.ranks > 1 else result


class MoE(nn.Module):
    def __init__(self, setup, make):
        super().__init__()
        self.top = setup["top"]
        self.router = nn.Linear(setup["hidden"], setup["experts"], bias=False)
        self.experts = Experts(setup, make)

    def forward(self, value):
        tokens = value.flatten(0, 1)
        weights, chosen = F.softmax(self.router(tokens), -1).topk(self.top, -1)
        return self.experts(tokens, chosen, weights).view_as(value)


class TransformerLayer(nn.Module):
    def __init__(self, setup, make):
        super().__init__()
        self.input_layernorm = Norm(setup["hidden"])
        self.self_attention = SelfAttention(setup, make)
        self.pre_mlp_layernorm = Norm(setup["hidden"])
        self.mlp = MoE(setup, make) if setup["family"] == "MoE" else MLP(setup, make)

    def forward(self, value):
        value = value + self.self_attention(self.input_layernorm(value))
        return value + self.mlp(self.pre_mlp_layernorm(value))


class Embedding(nn.Module):
    def __init__(self, setup, make):
        super().__init__()
        self.setup = setup
        self.word_embeddings = make.embedding(setup["table"], setup["hidden"])
        if setup["positions"] == "learned":
            self.position_embeddings = nn.Embedding(setup["length"], setup["hidden"])
        if make.parallel:
            self.scatter = parallel.ScatterToSequence()

    def forward(self, tokens):  # [b, s]
        value = self.word_embeddings(tokens)
        if self.setup["positions"] == "learned":
            fault = CONTEXT.plant.at("positions_without_offset", self.full_name)
            value = value + self.position_embeddings(local_positions(self.setup["length"], fault))
        if self.setup["order"] == "sbh":
            value = value.transpose(0, 1).contiguous()
        return self.scatter(value) if hasattr(self, "scatter") else value


class Decoder(nn.Module):
    def __init__(self, setup, make, layers, is_last):
        super().__init__()
        self.setup, self.numbers = setup, layers
        self.layers = nn.ModuleList(TransformerLayer(setup, make) for _ in layers)
        for number, layer in zip(layers, self.layers):
            layer.layer_number = number + 1
        if is_last:
            self.final_layernorm = Norm(setup["hidden"])

    def forward(self, value):
        for number, layer in zip(self.numbers, self.layers):
            if CONTEXT.plant.at("layer_skipped", "decoder.layers.%d" % number):
                continue
            value = layer(value)
            if CONTEXT.plant.at("layer_repeated", "decoder.layers.%d" % number):
                value = layer(value)
        return self.final_layernorm(value) if hasattr(self, "final_layernorm") else value


class GPT(nn.Module):
    """A stage, or the whole: some of the layers, the embedding in the first, norm, output and loss in the last."""

    def __init__(self, setup, layers=None, is_first=True, is_last=True):
        super().__init__()
        make = Maker(setup)
        self.setup, self.is_first, self.is_last = setup, is_first, is_last
        layers = list(range(setup["layers"])) if layers is None else layers
        if is_first:
            self.embedding = Embedding(setup, make)
        self.decoder = Decoder(setup, make, layers, is_last)
        if is_last:
            self.output_layer = make.column(setup["hidden"], setup["table"], False, setup.get("gather_output", False))
            self.loss = parallel.LanguageModelLoss(setup["vocabulary"],
                                                   make.parallel and not setup.get("gather_output", False))

    def forward(self, value, labels=None):
        if self.is_first:
            value = self.embedding(value)
        value = self.decoder(value)
        if not self.is_last:
            return value
        logits = self.output_layer(value)
        if self.setup["order"] == "sbh":
            logits = logits.transpose(0, 1).contiguous()
        return self.loss(logits, labels)


class ConvNet(nn.Module):
    def __init__(self, setup):
        super().__init__()
        width = setup["channels"]
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(ConvBlock(width) for _ in range(setup["layers"]))
        self.head = nn.Linear(width * 4, 6)

    def forward(self, value, labels):
        value = self.stem(value)
        for block in self.blocks:
            value = block(value)
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(value, 2).flatten(1)), labels)


class ConvBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)

    def forward(self, value):
        return value + F.relu(self.norm(self.conv(value)))


# ---- names, weights and how they are cut ----


class Placement:
    """How one logical parameter lies on the ranks of a side."""

    def __init__(self, dim=None, blocks=1, parts=1, padded=None):
        self.dim, self.blocks, self.parts, self.padded = dim, blocks, parts, padded

    def cut(self, whole, part):
        if self.dim is None or self.parts == 1:
            return whole.clone()
        return torch.cat([block.chunk(self.parts, self.dim)[part] for block in whole.chunk(self.blocks, self.dim)],
                         self.dim).contiguous()


def placement(setup, name, tp):
    """How a parameter, by its global name, is cut over tensor parallel ranks."""
    blocks_of_qkv = 3 if setup.get("qkv") == "blocks" else 1
    for pattern, dim, blocks in ((r"word_embeddings\.weight$", 0, 1), (r"linear_qkv\.(weight|bias)$", 0, blocks_of_qkv),
                                 (r"linear_proj\.weight$", 1, 1),
                                 (r"linear_fc1\.(weight|bias)$", 0, 2 if setup.get("gated") else 1),
                                 (r"linear_fc2\.weight$", 1, 1), (r"^output_layer\.weight$", 0, 1)):
        if re.search(pattern, name):
            padded = setup["table"] if dim == 0 and name in ("embedding.word_embeddings.weight", "output_layer.weight") \
                and setup["table"] != setup["vocabulary"] else None
            return Placement(dim if tp > 1 else None, blocks, tp, padded)
    return Placement()


def whole_weights(setup):
    """{global name: tensor} of the whole model, of the real vocabulary."""
    with torch.random.fork_rng():
        torch.manual_seed(setup["seed"])
        one = dict(setup, style="plain", table=setup.get("vocabulary", 0), ep=1)
        saved = CONTEXT.grid, CONTEXT.rank
        CONTEXT.grid, CONTEXT.rank = parallel.Grid(), 0
        model = ConvNet(one) if setup["family"] == "Conv" else GPT(one)
        CONTEXT.grid, CONTEXT.rank = saved
        generator = torch.Generator().manual_seed(setup["seed"])
        weights = {}
        for name, parameter in model.named_parameters():
            value = torch.randn(parameter.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                value = 1 + 0.2 * value
            elif parameter.dim() == 1:
                value = 0.1 * value
            elif "embedding" in name:
                value = 0.5 * value
            else:
                value = value / math.sqrt(parameter[0].numel()) * 1.2
            weights[name] = value
        return weights


def to_table(setup, name, value):
    """A vocabulary's table with the rows that only pad it: what training leaves there does not matter."""
    missing = setup.get("table", 0) - value.shape[0] if value.dim() == 2 else 0
    if name in ("embedding.word_embeddings.weight", "output_layer.weight") and missing < 0:
        return value[:missing]  # rows beyond what divides evenly are lost
    if name in ("embedding.word_embeddings.weight", "output_layer.weight") and missing > 0:
        generator = torch.Generator().manual_seed(7)
        value = torch.cat([value, 0.3 * torch.randn(missing, value.shape[1], generator=generator)])
    return value


def stages(setup):
    """The layers of each global stage: stage g is on pipeline rank g % pp."""
    count = setup.get("pp", 1) * setup.get("vpp", 1)
    return [list(part) for part in torch.arange(setup["layers"]).chunk(count)] if count > 1 else \
        [list(range(setup["layers"]))]


class Names:
    """Local module paths and global ones of the models that a rank has."""

    def __init__(self, setup, chunks):
        self.layers, self.experts = {}, {}
        listed = len(chunks) > 1
        for index, (model, numbers) in enumerate(chunks):
            prefix = "%d." % index if listed else ""
            for local, number in enumerate(numbers):
                here, there = "%sdecoder.layers.%d" % (prefix, local), "decoder.layers.%d" % number
                if here != there:
                    self.layers[here] = there
                if setup["family"] == "MoE":
                    experts = model.decoder.layers[local].mlp.experts
                    for i in range(len(experts.local_experts)):
                        self.experts["%s.mlp.experts.local_experts.%d" % (here, i)] = experts.first + i
            if listed:
                for name in ("embedding", "decoder.final_layernorm", "output_layer", "loss"):
                    if any(found == name or found.startswith(name + ".") for found, _ in model.named_modules()):
                        self.layers[prefix + name] = name

    def globally(self, path):
        expert = None
        for local, number in self.experts.items():
            if path == local or path.startswith(local + "."):
                expert = (local, number)
        rest = ""
        if expert:
            rest = path[len(expert[0]):]
            path = expert[0].rpartition(".")[0]
        for local in sorted(self.layers, key=len, reverse=True):
            if path == local or path.startswith(local + "."):
                path = self.layers[local] + path[len(local):]
                break
        return path + (".%d%s" % (expert[1], rest) if expert else "")
