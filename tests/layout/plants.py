"""The faults: what each needs, what it does, and what a right answer about it is.

A truth is made from the plan of the fault and the layout alone: places (direction and global path), kinds of origin,
relations, factor, ranks. Where statistics cannot show it (values in another order), the truth is the first place whose
joined statistics differ, without a relation. `None` among the relations: none need be named.
"""
import re

import torch
from msprobe import _native

import models
import parallel

FAULTS = {}


class Truth:
    def __init__(self, places, kinds, relations, factor=None, ranks=(), step=0, gradient_factor=None):
        self.places, self.kinds, self.relations = list(places), list(kinds), list(relations)
        self.factor, self.ranks, self.step = factor, sorted(ranks), step
        # All gradients are this many times the reference's: recorded, and no divergence of theirs.
        self.gradient_factor = gradient_factor

    def as_json(self):
        return dict(self.__dict__)


def fault(name, needs):
    """Registers choose(rng, setup) -> (what the plant is told, Truth), or None where the model has no such place."""
    def register(choose):
        FAULTS[name] = (needs, choose)
        return choose
    return register


class Plant(parallel.NoPlant):
    """A fault in a process: `at` asks whether it is here and now."""

    def __init__(self, kind, place=None, ranks=None, first_step=0, **more):
        self.kind, self.place, self.ranks, self.first_step, self.more = kind, place, ranks, first_step, more
        self.rank, self.step, self.fired = 0, 0, 0

    def at(self, kind, place=None):
        here = kind == self.kind and (place is None or self.place is None or place == self.place) \
            and (self.ranks is None or self.rank in self.ranks) and self.step >= self.first_step
        self.fired += here
        return here

    def loaded(self, path, value, part, whole):
        """What a rank takes for the weight `path`, and which part of it."""
        if self.kind == "shard_swapped" and self.at(self.kind, path):
            part = {0: 1, 1: 0}.get(part, part)
        elif self.kind == "shard_lost" and self.at(self.kind, path):
            value = torch.zeros_like(value)
        elif self.kind == "transposed" and self.at(self.kind, path):
            value = value.t().contiguous()
        elif self.kind == "replica_drift" and self.at(self.kind, path):
            value = value * (1 + 0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(5)))
        elif self.kind == "experts_swapped":
            a, b = (self.place % number for number in self.more["pair"])
            if path.startswith(a) or path.startswith(b):
                self.fired += 1
                value = whole[path.replace(a, "?").replace(b, a).replace("?", b)]
        return value, part

    def into(self, model):
        """Modules whose result is spoilt."""
        damage = {"rounded": lambda value: value.bfloat16().float(),
                  "scaled": lambda value: value * self.more["factor"],
                  "offset": lambda value: value + self.more["offset"],
                  "shifted": self._shifted}.get(self.kind)
        if damage is None:
            return
        for module in model.modules():
            if getattr(module, "full_name", None) == self.place:
                module.forward = self._spoilt(module.forward, damage)

    def _spoilt(self, forward, damage):
        def spoilt(*values):
            result = forward(*values)
            if not self.at(self.kind):
                return result
            before = _native.inside(True)  # what happens in here is no call of the script
            try:
                return damage(result)
            finally:
                _native.inside(before)
        return spoilt

    def _shifted(self, value):
        dim = parallel.CONTEXT.sequence_dim
        return torch.cat([torch.zeros_like(value.narrow(dim, 0, 1)), value.narrow(dim, 0, value.shape[dim] - 1)], dim)


# ---- what setups have ----


def size(setup, axis):
    return setup.get(axis, 1)


def replicas(setup):
    return size(setup, "dp") * size(setup, "cp")


def _by_hand(setup):
    return not (setup.get("fsdp") or setup.get("dtensor") or setup.get("ddp"))


def _is_parallel(setup):
    return setup["style"] == "parallel"


def _is_gpt(setup):
    return setup["family"] != "Conv"


def _has_row_layers(setup):
    return size(setup, "tp") > 1 and _is_parallel(setup)


def _layer(rng, setup):
    return "decoder.layers.%d" % rng.randrange(setup["layers"])


def _rows(setup, layer):
    """The row parallel layers of a transformer layer; not those of experts, which see tokens in an order of their own."""
    return [layer + ".self_attention.linear_proj"] + ([layer + ".mlp.linear_fc2"] if setup["family"] == "GPT" else [])


def _row(rng, setup):
    return rng.choice(_rows(setup, _layer(rng, setup)))


def _statistics(setup):
    return setup["task"] == "statistics"


def _forward(*paths):
    return ["forward " + path for path in paths]


def _gradient(path):
    return ["gradient " + path]


def _parameter(path):
    return ["parameter " + path]


def _parameters(setup):
    return list(models.whole_weights(setup))


def _ranks_where(setup, **place):
    grid = parallel.Grid(*(size(setup, axis) for axis in parallel.Grid.AXES))
    return [rank for rank in range(grid.world) if all(grid.place(rank)[axis] in values for axis, values in place.items())]


# ---- reductions in the forward and backward ----


@fault("reduction_forgotten", lambda s: _has_row_layers(s) and s["family"] != "MoE")
def _(rng, setup):
    place = _row(rng, setup)
    # Of a sum that is cut along the sequence at once, each rank keeps its own part: the parts do not add up any more.
    relations = ["any"] if setup.get("sp") else ["partial_sum"] + ([None] if setup["row_bias"] or _statistics(setup) else [])
    return dict(place=place), Truth(_forward(place), ["computation", "replica"], relations)


@fault("reduction_doubled", _has_row_layers)
def _(rng, setup):
    place = _row(rng, setup)
    relations = ["reduced_twice"] + ([None] if setup["row_bias"] else [])
    return dict(place=place), Truth(_forward(place), ["computation"], relations, float(size(setup, "tp")))


@fault("wrong_group", lambda s: _has_row_layers(s) and s["family"] != "MoE" and size(s, "dp") == size(s, "tp"))
def _(rng, setup):
    place = _row(rng, setup)
    return dict(place=place), Truth(_forward(place), ["computation", "replica"], ["any"])


@fault("bias_per_rank", lambda s: _has_row_layers(s) and s["row_bias"])
def _(rng, setup):
    place = _row(rng, setup)
    return dict(place=place), Truth(_forward(place), ["computation"],
                                    ["constant"] + ([None] if _statistics(setup) else []))


@fault("backward_reduction_forgotten", _has_row_layers)
def _(rng, setup):
    layer = _layer(rng, setup)
    place = rng.choice([layer + ".self_attention.linear_qkv"] +
                       ([layer + ".mlp.linear_fc1"] if setup["family"] == "GPT" else []))
    relations = ["any"] if setup.get("sp") else ["partial_sum"] + ([None] if _statistics(setup) else [])
    return dict(place=place), Truth(["backward " + place], ["computation", "replica"], relations)


@fault("gathered_in_wrong_order", lambda s: _has_row_layers(s) and s.get("gather_output"))
def _(rng, setup):
    if _statistics(setup):  # the logits are the same ones in another order
        return dict(place="output_layer"), Truth(_forward("loss", "output_layer"), ["computation", "input"], [None])
    return dict(place="output_layer"), Truth(_forward("output_layer"), ["computation"], ["permutation"])


@fault("part_lost", lambda s: _has_row_layers(s) and s.get("gather_output"))
def _(rng, setup):
    return dict(place="output_layer"), Truth(_forward("output_layer"), ["computation"],
                                             ["missing_part"] + ([None] if _statistics(setup) else []))


@fault("vocabulary_range", lambda s: _has_row_layers(s) and _is_gpt(s))
def _(rng, setup):
    place = "embedding.word_embeddings"
    return dict(place=place), Truth(_forward(place), ["computation"], ["any"])


@fault("padding_counted", lambda s: _is_gpt(s) and s["table"] != s["vocabulary"])
def _(rng, setup):
    return dict(place="loss"), Truth(_forward("loss"), ["computation"], ["any"])


# ---- sequences, data, micro-batches ----


@fault("positions_without_offset", lambda s: size(s, "cp") > 1)
def _(rng, setup):
    ranks = _ranks_where(setup, cp=range(1, size(setup, "cp")))
    if setup["positions"] == "learned":
        return dict(place="embedding"), Truth(_forward("embedding.position_embeddings", "embedding"), ["input", "computation"],
                                              ["any"], ranks=ranks)
    layer = _layer(rng, setup)
    place = layer + ".self_attention.rotary"
    return dict(place=place), Truth(_forward(place), ["computation", "input"], ["any"], ranks=ranks)


@fault("labels_shifted_twice", _is_gpt)
def _(rng, setup):
    has_chunks = size(setup, "cp") > 1
    return {}, Truth(_forward("loss"), ["input"], ["shift"] + ([None] if _statistics(setup) or has_chunks else []))


@fault("stale_micro_batch", lambda s: s["micro"] > 1)
def _(rng, setup):
    ranks = None
    if size(setup, "dp") > 1 and rng.random() < 0.5 and size(setup, "ep") == 1:
        ranks = _ranks_where(setup, dp=[rng.randrange(size(setup, "dp"))])
    places = _forward("embedding.word_embeddings", "embedding") if _is_gpt(setup) else _forward("stem")
    return dict(ranks=ranks), Truth(places, ["input"], ["stale"] + ([None] if _statistics(setup) else []), ranks=ranks or [])


@fault("accumulation_undivided", lambda s: s["micro"] > 1)
def _(rng, setup):
    return {}, Truth([], [], [None], gradient_factor=float(setup["micro"]))


def _any_gradient(setup):
    return ["gradient *"]


@fault("running_sum_divided", lambda s: s["micro"] > 1 and not s.get("fsdp") and not s.get("ddp"))
def _(rng, setup):
    return {}, Truth(_any_gradient(setup), ["computation"], ["any"])


@fault("accumulation_lost", lambda s: s["micro"] > 1 and size(s, "pp") == 1)
def _(rng, setup):
    return {}, Truth(_any_gradient(setup), ["computation"], ["any"])


# ---- weights as they are loaded ----

_CUT = r"(linear_qkv\.weight|linear_proj\.weight|linear_fc1\.weight|linear_fc2\.weight|word_embeddings\.weight|^output_layer\.weight)$"


def _seen_first(path):
    """Where a weight whose parts changed places shows in joined statistics: behind it, at the latest after the reduction."""
    module = path.rpartition(".")[0]
    after = {"linear_qkv": ["rotary", "core_attention", "linear_proj"], "linear_fc1": ["linear_fc2"]}
    name = module.rpartition(".")[2]
    found = [module] + [module.rpartition(".")[0] + "." + other for other in after.get(name, [])]
    return _forward(*found, *(["loss"] if name == "output_layer" else [])) + _parameter(path)


@fault("shard_swapped", _has_row_layers)
def _(rng, setup):
    path = rng.choice([name for name in _parameters(setup) if re.search(_CUT, name) and ".experts." not in name])
    if _statistics(setup):  # it shows behind the reduction, which all ranks share
        return dict(place=path), Truth(_seen_first(path), ["parameter", "computation", "input"], [None, "wrong_part"])
    ranks = [] if size(setup, "tp") == 2 else _ranks_where(setup, tp=[0, 1])
    return dict(place=path), Truth(_parameter(path), ["parameter"], ["wrong_part"], ranks=ranks)


@fault("shard_lost", _has_row_layers)
def _(rng, setup):
    path = rng.choice([name for name in _parameters(setup) if re.search(_CUT, name) and ".experts." not in name])
    part = rng.randrange(size(setup, "tp"))
    ranks = _ranks_where(setup, tp=[part])
    return dict(place=path, ranks=ranks), Truth(_parameter(path), ["parameter"], ["missing_part"] +
                                                ([None] if _statistics(setup) else []), ranks=ranks)


@fault("transposed", _is_gpt)
def _(rng, setup):
    path = _layer(rng, setup) + ".self_attention.linear_proj.weight"
    if _statistics(setup):
        return dict(place=path), Truth(_seen_first(path), ["parameter", "computation", "input"], [None, "transpose"])
    return dict(place=path), Truth(_parameter(path), ["parameter"], ["transpose"])


@fault("replica_drift", lambda s: _by_hand(s) and not (s["family"] == "MoE" and size(s, "tp") * size(s, "ep") > 1) and (size(s, "tp") > 1 or replicas(s) > 1))
def _(rng, setup):
    names = [name for name in _parameters(setup)
             if ("norm" in name or "router" in name or "stem" in name) and name.endswith("weight")]
    path = rng.choice(names)
    axes = [axis for axis in ("tp", "dp", "cp") if size(setup, axis) > 1]
    axis = rng.choice(axes)
    ranks = _ranks_where(setup, **{axis: [rng.randrange(size(setup, axis))]})
    return dict(place=path, ranks=ranks), Truth(_parameter(path), ["replica"], ["any"], ranks=ranks)


@fault("experts_swapped", lambda s: s["family"] == "MoE")
def _(rng, setup):
    place = _layer(rng, setup) + ".mlp.experts.local_experts.%d."
    a, b = sorted(rng.sample(range(setup["experts"]), 2))
    places = [direction + name for direction in ("parameter ",) for name in _parameters(setup)
              if name.startswith(place % a) or name.startswith(place % b)]
    return dict(place=place, pair=[a, b]), Truth(places, ["parameter"], ["wrong_part", "permutation", None])


@fault("tokens_to_wrong_expert", lambda s: s["family"] == "MoE")
def _(rng, setup):
    place = _layer(rng, setup) + ".mlp.experts"
    return dict(place=place), Truth(_forward(place, place + ".local_experts.*"), ["computation", "input"], ["any"])


# ---- stages ----


@fault("layer_skipped", lambda s: size(s, "pp") > 1)
def _(rng, setup):
    boundary = rng.choice([stage[-1] for stage in models.stages(setup)[:-1] if len(stage) > 1] or
                          [stage[-1] for stage in models.stages(setup)[:-1]])
    place = "decoder.layers.%d" % int(boundary)
    return dict(place=place), Truth(_forward(place, place + ".*"), ["unmatched call"], ["any"],
                                    ranks=[])


@fault("layer_repeated", lambda s: size(s, "pp") > 1)
def _(rng, setup):
    place = "decoder.layers.%d" % int(rng.choice([stage[-1] for stage in models.stages(setup)[:-1]]))
    return dict(place=place), Truth(_forward(place, place + ".*"), ["unmatched call"], ["any"])


# ---- modules that compute something else ----


def _any_module(rng, setup):
    if setup["family"] == "Conv":
        return rng.choice(["stem", "blocks.%d.norm" % rng.randrange(setup["layers"]), "head"])
    layer = _layer(rng, setup)
    return rng.choice([layer + ".input_layernorm", layer + ".self_attention.core_attention", layer + ".pre_mlp_layernorm",
                       "decoder.final_layernorm"] + ([] if setup.get("dtensor") else _rows(setup, layer)))


@fault("rounded", lambda s: True)
def _(rng, setup):
    place = _any_module(rng, setup)
    return dict(place=place), Truth(_forward(place), ["computation"],
                                    ["precision"] + ([None] if _statistics(setup) else []))


@fault("scaled", lambda s: True)
def _(rng, setup):
    place, factor = _any_module(rng, setup), rng.choice([0.5, 2.0, 0.125, 1.25, 24.0])
    return dict(place=place, factor=factor), Truth(_forward(place), ["computation"], ["scale"], factor)


@fault("offset", lambda s: True)
def _(rng, setup):
    place = _any_module(rng, setup)
    return dict(place=place, offset=rng.choice([0.25, -1.0])), Truth(
        _forward(place), ["computation"], ["constant"] + ([None] if _statistics(setup) else []))


@fault("shifted", lambda s: _is_gpt(s))
def _(rng, setup):
    place = _layer(rng, setup) + rng.choice([".input_layernorm", ".pre_mlp_layernorm"])
    whole = size(setup, "cp") == 1 and not setup.get("sp")
    return dict(place=place), Truth(_forward(place), ["computation"],
                                    ["shift"] + ([] if whole and not _statistics(setup) else [None]))


# ---- gradients between backward and optimizer ----


def _reduces_by_hand(setup):
    return replicas(setup) > 1 and _by_hand(setup)


def _reduced_parameter(rng, setup):
    return rng.choice([name for name in _parameters(setup) if size(setup, "ep") == 1 or ".experts." not in name])


@fault("gradient_not_reduced", _reduces_by_hand)
def _(rng, setup):
    path = _reduced_parameter(rng, setup)
    return dict(place=path), Truth(_gradient(path), ["computation", "replica"], ["partial_sum", None])


@fault("gradient_reduced_twice", _reduces_by_hand)
def _(rng, setup):
    path = _reduced_parameter(rng, setup)
    return dict(place=path), Truth(_gradient(path), ["computation"], ["reduced_twice"], float(replicas(setup)))


@fault("gradient_divided_twice", _reduces_by_hand)
def _(rng, setup):
    path = _reduced_parameter(rng, setup)
    return dict(place=path), Truth(_gradient(path), ["computation"], ["scale"], 1.0 / replicas(setup))


@fault("gradient_summed", _reduces_by_hand)
def _(rng, setup):
    path = _reduced_parameter(rng, setup)
    return dict(place=path), Truth(_gradient(path), ["computation"], ["scale", "reduced_twice"], float(replicas(setup)))


@fault("gradient_over_wrong_group", lambda s: _reduces_by_hand(s) and _has_row_layers(s))
def _(rng, setup):
    path = _reduced_parameter(rng, setup)
    return dict(place=path), Truth(_gradient(path), ["computation", "replica"], ["any"])


@fault("sequence_gradient_not_reduced", lambda s: s.get("sp") and _has_row_layers(s))
def _(rng, setup):
    path = rng.choice([name for name in _parameters(setup) if "norm" in name])
    return dict(place=path), Truth(_gradient(path), ["computation", "replica"],
                                   ["partial_sum"] + ([None] if _statistics(setup) else []))


@fault("clip_by_local_norm", lambda s: s.get("clip") and _has_row_layers(s) and _by_hand(s))
def _(rng, setup):
    return {}, Truth(_any_gradient(setup), ["computation", "replica"], ["any"])


@fault("update_lost", lambda s: s["steps"] > 1)
def _(rng, setup):
    return {}, Truth(["parameter *"], ["optimizer"], ["stale", None], step=1)
